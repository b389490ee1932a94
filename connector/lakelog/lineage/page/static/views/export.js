/** The graph as a file: SVG, JSON and CSV. */

import { split } from "../data/names.js";
import { pictureOf } from "../draw/picture.js";
import { make } from "../ui/dom.js";

/** @import {Graph, Path} from "../data/types.js" */
/** @import {Scene} from "../draw/scene.js" */

/** @type {[string, string][]} */
export const FORMATS = [
  ["svg", "Picture (SVG)"],
  ["csv", "Edges (CSV)"],
  ["json", "Graph (JSON)"],
];
const TYPES = { svg: "image/svg+xml", csv: "text/csv", json: "application/json" };

/**
 * Save the graph as a file with the name of its root.
 * @param {Graph} graph
 * @param {Scene} scene
 * @param {Path | null} path
 * @param {string} format
 */
export function saveGraph(graph, scene, path, format) {
  const [, dataset = "lineage"] = split(graph.root);
  const contents = format === "svg" ? pictureOf(scene, graph.root, path) : format === "csv" ? csvOf(graph) : jsonOf(graph);
  const url = URL.createObjectURL(new Blob([contents], { type: TYPES[/** @type {keyof typeof TYPES} */ (format)] }));
  const name = dataset.replaceAll(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80) || "lineage";
  make("a", { href: url, download: `${name}-lineage.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * One line for each edge; the last column of the target is empty where the edge counts for all of its columns.
 * @param {Graph} graph
 */
export function csvOf(graph) {
  const head = ["from_ns", "from_dataset", "from_field", "to_ns", "to_dataset", "to_field", "kinds", "direct", "masked", "approximate", "opaque"];
  const lines = [...graph.edges.values()].map((edge) => {
    const [fromNs, fromDataset, fromField] = split(edge.source);
    const [toNs, toDataset, toField = ""] = split(edge.target);
    const { direct, masked, approximate, opaque } = edge;
    return [fromNs, fromDataset, fromField, toNs, toDataset, toField, edge.kinds.join(" "), direct, masked, approximate, opaque];
  });
  const cell = (/** @type {unknown} */ value) => {
    const text = String(value);
    return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/**
 * @param {Graph} graph
 */
function jsonOf(graph) {
  const datasets = [...graph.boxes.values()].map(({ key: _, fields, ...box }) => ({ ...box, fields: [...fields.values()] }));
  const edges = [...graph.edges.values()].map(({ id: _id, sourceBox: _s, targetBox: _t, source, target, ...edge }) => ({
    source: split(source),
    target: split(target),
    ...edge,
  }));
  return `${JSON.stringify({ root: split(graph.root), datasets, edges }, null, 2)}\n`;
}
