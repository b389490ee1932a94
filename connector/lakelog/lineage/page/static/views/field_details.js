/** A column: what it is made from, what it is used in, and all that is made of it, however far away. */

import { askImpact } from "../data/api.js";
import { boxOf, join, oneLine, split } from "../data/names.js";
import { edgesOf } from "../data/path.js";
import { centreOn } from "../draw/pointer.js";
import { icon, make } from "../ui/dom.js";
import { section, waiting } from "../ui/parts.js";
import { count, kindsText } from "../ui/words.js";

/** @import {Details} from "./drawer.js" */
/** @import {Change, Edge, ImpactRow} from "../data/types.js" */

/**
 * @param {Details} details
 */
export async function fieldDetails({ key, shown, change, signal, show }) {
  const graph = shown.graph;
  if (graph === null) return;
  const field = graph.boxes.get(boxOf(key))?.fields.get(split(key)[2] ?? "");
  const facts = [
    field?.type?.toLowerCase(),
    field?.state === "dropped" && "dropped from the schema",
    field?.generated && "generated: made from no column",
    field?.tainted && "tainted",
  ].filter(Boolean);
  const impact = make("div", {}, waiting());
  show(
    make("p", { class: "marks" }, ...facts.map((fact) => make("span", { class: "mark" }, String(fact)))),
    make(
      "div",
      { class: "buttons" },
      make("button", { type: "button", click: () => change(centreOn(key)) }, icon("centre"), "Centre on this column"),
    ),
    section("Made from", makeEdges(edgesOf(graph, key, "up"), "up", change, "No column, in what is drawn.")),
    section("Used in", makeEdges(edgesOf(graph, key, "down"), "down", change, "No column, in what is drawn.")),
    section("All that is made of it", impact),
  );
  const { rows, total } = await askImpact(key, shown.state, signal);
  impact.replaceChildren(makeImpact(rows, total ?? rows.length, change));
}

/**
 * @param {Edge[]} edges
 * @param {'up' | 'down'} side
 * @param {Change} change
 * @param {string} none
 */
function makeEdges(edges, side, change, none) {
  if (edges.length === 0) return make("p", { class: "muted" }, none);
  return make(
    "ul",
    { class: "edges-list" },
    ...edges.map((edge) => {
      const [ns = "", dataset = "", name = "all columns"] = split(side === "up" ? edge.source : edge.target);
      return make(
        "li",
        {},
        make(
          "button",
          { type: "button", class: "end", title: "What made it", click: () => change({ lock: `edge/${edge.id}` }) },
          make("span", { class: "name" }, oneLine(name)),
          make("span", { class: "under" }, `${dataset} · ${ns}`),
          make("span", { class: "how" }, kindsText(edge)),
        ),
      );
    }),
  );
}

/**
 * @param {ImpactRow[]} rows
 * @param {number} total
 * @param {Change} change
 */
function makeImpact(rows, total, change) {
  if (rows.length === 0) return make("p", { class: "muted" }, "Nothing is made of it.");
  const datasets = new Set(rows.map((row) => JSON.stringify([row.ns, row.dataset])));
  const known = `${count(rows.length, "column")} in ${count(datasets.size, "dataset")}`;
  const words = total > rows.length ? `The first ${known}, of ${count(total, "column")}.` : `${known}.`;
  const lines = rows.map((row) =>
    make(
      "tr",
      {},
      make("td", { class: "number" }, String(row.hop)),
      make(
        "td",
        {},
        make("button", { type: "button", class: "link", click: () => change(centreOn(join(row.ns, row.dataset, row.field))) },
          make("span", { class: "name" }, oneLine(row.field))),
        make("span", { class: "under" }, `${row.dataset} · ${row.ns}`),
      ),
      make("td", {}, row.jobs.join(", ")),
    ),
  ); // prettier-ignore
  const heads = ["Hops", "Column", "Jobs"];
  return make(
    "div",
    { class: "scroll" },
    make("p", { class: "muted" }, words),
    make(
      "table",
      { class: "facts" },
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...lines),
    ),
  );
}
