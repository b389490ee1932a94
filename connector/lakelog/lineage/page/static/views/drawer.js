/** The details of what is locked: an edge, a column or a dataset. */

import { isAborted } from "../data/api.js";
import { boxOf, parseLock, split } from "../data/names.js";
import { byId, iconButton, make } from "../ui/dom.js";
import { datasetDetails } from "./dataset_details.js";
import { edgeDetails } from "./edge_details.js";
import { fieldDetails } from "./field_details.js";

/** @import {Change, Graph, Shown, State} from "../data/types.js" */

/**
 * What a part of the drawer is made with. `show` is called with more once the server has answered.
 * @typedef {{key: string, shown: Shown, change: Change, signal: AbortSignal, show: (...parts: Node[]) => void}} Details
 */

/**
 * @param {() => State} get
 * @param {Change} change
 */
export function keepDrawer(get, change) {
  const drawer = byId("drawer");
  let asked = new AbortController();
  let sign = "";
  drawer.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    change({ drawer: false });
    byId(get().view === "tree" ? "tree" : "graph").focus({ preventScroll: true });
    event.stopPropagation();
  });

  /**
   * @param {Shown} shown
   */
  return (shown) => {
    const { state, graph } = shown;
    const locked = state.drawer ? parseLock(state.lock) : null;
    const next = locked && graph ? signOf(state, graph, locked.key) : "";
    if (next === sign) return;
    sign = next;
    asked.abort();
    asked = new AbortController();
    drawer.hidden = locked === null || graph === null;
    if (locked === null || graph === null) return;
    const body = make("div", { class: "drawer-body" });
    const { signal } = asked;
    const details = { key: locked.key, shown, change, signal, show: (/** @type {Node[]} */ ...parts) => body.replaceChildren(...parts) };
    drawer.replaceChildren(makeHead(locked.kind, locked.key, change), body);
    drawer.scrollTop = 0;
    const fill = { dataset: datasetDetails, field: fieldDetails, edge: edgeDetails }[locked.kind];
    fill(details).catch((error) => {
      if (isAborted(error)) return;
      body.querySelector(".waiting")?.remove();
      body.append(make("p", { class: "problem", role: "alert" }, error.message));
    });
  };
}

/**
 * What the drawer shows depends on; it is made again when this changes.
 * @param {State} state
 * @param {Graph} graph
 * @param {string} key
 */
function signOf(state, graph, key) {
  const taint = graph.boxes.get(boxOf(key))?.tainted ?? null;
  return JSON.stringify([state.lock, state.start, state.end, state.kinds, state.wrong, taint, graph.root, graph.edges.size]);
}

/**
 * @param {'dataset' | 'field' | 'edge'} kind
 * @param {string} key
 * @param {Change} change
 */
function makeHead(kind, key, change) {
  const [ns = "", dataset = "", field = ""] = split(key);
  const words = { dataset: "Dataset", field: "Column", edge: "Edge" }[kind];
  const name = { dataset, field, edge: "What made it" }[kind];
  const under = { dataset: ns, field: `${dataset} · ${ns}`, edge: "" }[kind];
  return make(
    "div",
    { class: "drawer-head" },
    make(
      "div",
      { class: "drawer-title" },
      make("p", { class: "eyebrow" }, words),
      make("h2", { class: "name" }, name),
      under && make("p", { class: "under" }, under),
    ),
    iconButton("close", "Close details", { click: () => change({ drawer: false }) }),
  );
}
