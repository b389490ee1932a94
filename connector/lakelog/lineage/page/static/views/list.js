/** Lists of datasets: all of them where none is chosen, and those that are too many to draw. */

import { askSearch, isAborted } from "../data/api.js";
import { join, oneLine } from "../data/names.js";
import { DRAWN_MAX } from "../data/state.js";
import { centreOn } from "../draw/pointer.js";
import { byId, make } from "../ui/dom.js";
import { count, hopText } from "../ui/words.js";

/** @import {Change, Found, Graph, Neighbour, Shown, State} from "../data/types.js" */

const PAGE = 100;

/**
 * @param {Change} change
 * @param {(words: string) => void} announce
 */
export function keepList(change, announce) {
  const host = byId("list");
  let sign = "";
  let asked = new AbortController();

  /**
   * @param {Shown} shown
   */
  return ({ state, graph }) => {
    const isHome = state.dataset === "";
    const next = isHome ? "home" : graph?.tooMany ? `${graph.root} ${graph.total} ${state.depth} ${state.direction} ${state.limit}` : "";
    if (next === sign) return;
    sign = next;
    asked.abort();
    asked = new AbortController();
    if (isHome) showHome(host, change, asked.signal);
    else if (graph?.tooMany) showNeighbours(host, graph, state, change, announce);
    else host.replaceChildren();
  };
}

/**
 * @param {HTMLElement} host
 * @param {Change} change
 * @param {AbortSignal} signal
 */
function showHome(host, change, signal) {
  const list = make("ul", { class: "datasets" });
  const note = make("p", { class: "muted" }, "Loading…");
  const more = make("button", { type: "button", hidden: true }, "More datasets");
  let listed = 0;
  const load = async () => {
    more.disabled = true;
    try {
      const { total, results } = await askSearch("", PAGE, listed, signal);
      list.append(...results.map((one) => makeFound(one, change)));
      listed += results.length;
      note.textContent = total === 0 ? "No lineage is recorded yet. Run a job that writes a table." : count(total, "dataset");
      more.hidden = listed >= total || results.length === 0;
    } catch (error) {
      if (!isAborted(error)) note.textContent = error instanceof Error ? error.message : String(error);
    }
    more.disabled = false;
  };
  more.addEventListener("click", load);
  host.replaceChildren(
    make("h1", {}, "Where a column comes from, and what is made of it"),
    make("p", { class: "lead" }, "Search for a dataset or a column, or choose a dataset."),
    note,
    list,
    more,
  );
  void load();
}

/**
 * @param {Found} found
 * @param {Change} change
 */
function makeFound(found, change) {
  const key = join(found.ns, found.dataset);
  return makeItem(key, found.dataset, found.ns, found.foreign ? "external" : found.hasLineage ? "" : "no lineage", change);
}

/**
 * @param {HTMLElement} host
 * @param {Graph} graph
 * @param {State} state
 * @param {Change} change
 * @param {(words: string) => void} announce
 */
function showNeighbours(host, graph, state, change, announce) {
  const filter = make("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter the datasets by name", autocomplete: "off", spellcheck: "false" });
  const lists = make("div");
  const show = () => {
    const asked = filter.value.toLowerCase();
    const found = graph.neighbours.filter((one) => one.dataset.toLowerCase().includes(asked));
    lists.replaceChildren(...makeHops(found, change));
    announce(count(found.length, "dataset"));
  };
  filter.addEventListener("input", show);
  const canDraw = graph.total > state.limit && graph.total <= DRAWN_MAX;
  const draw = make("button", { type: "button", click: () => change({ limit: Math.min(graph.total + 20, DRAWN_MAX) }) }, `Draw all ${graph.total}`);
  const hops = count(state.depth, "hop");
  host.replaceChildren(
    make("h1", {}, `${count(graph.total, "dataset")} within ${hops}`),
    make(
      "p",
      { class: "lead" },
      `A picture of more than ${graph.total > state.limit ? `${state.limit} boxes` : "20,000 edges"} is hard to read, ` +
        "so they are listed. Choose one, or ask for fewer hops, one direction or a shorter time.",
    ),
    make("div", { class: "list-tools" }, filter, canDraw && draw),
    lists,
  );
  show();
}

/**
 * @param {Neighbour[]} neighbours
 * @param {Change} change
 */
function makeHops(neighbours, change) {
  const hops = [...new Set(neighbours.map((one) => one.hop))];
  return hops.map((hop) => {
    const of = neighbours.filter((one) => one.hop === hop);
    const items = of.map((one) => makeItem(join(one.ns, one.dataset), one.dataset, one.ns, count(one.fields, "column"), change));
    return make("section", {}, make("h2", {}, hopText(hop), make("span", { class: "muted" }, ` ${of.length}`)), make("ul", { class: "datasets" }, ...items));
  });
}

/**
 * @param {string} key
 * @param {string} name
 * @param {string} under
 * @param {string} note
 * @param {Change} change
 */
function makeItem(key, name, under, note, change) {
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "dataset", click: () => change(centreOn(key)) },
      make("span", { class: "name", title: name }, oneLine(name)),
      make("span", { class: "under" }, note ? `${under} · ${note}` : under),
    ),
  );
}
