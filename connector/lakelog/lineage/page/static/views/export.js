/** The graph as a file: SVG, JSON and CSV. */

import { oneLine, split } from "../data/names.js";
import { styleOf } from "../data/model.js";
import { SIZES } from "../data/rows.js";
import { pathData } from "../layout/curves.js";
import { make, makeSvg } from "../ui/dom.js";

/** @import {Graph} from "../data/types.js" */
/** @import {Placed, Scene} from "../draw/scene.js" */

/** @type {[string, string][]} */
export const FORMATS = [
  ["svg", "Picture (SVG)"],
  ["csv", "Edges (CSV)"],
  ["json", "Graph (JSON)"],
];
const TYPES = { svg: "image/svg+xml", csv: "text/csv", json: "application/json" };
const MARGIN = 24;
const DASHES = { sure: "none", unsure: "6 4", rows: "1.5 4" };

/**
 * Save the graph as a file with the name of its root.
 * @param {Graph} graph
 * @param {Scene} scene
 * @param {string} format
 */
export function saveGraph(graph, scene, format) {
  const [, dataset = "lineage"] = split(graph.root);
  const contents = format === "svg" ? svgOf(scene) : format === "csv" ? csvOf(graph) : jsonOf(graph);
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

/**
 * The whole picture with its own colours, for a page or a document with a light ground.
 * @param {Scene} scene
 */
export function svgOf(scene) {
  const lines = [...scene.lines.values()].map(({ edge, line }) =>
    makeSvg("path", { d: pathData(line), fill: "none", stroke: "#7b8798", "stroke-width": 1.25, "stroke-dasharray": DASHES[styleOf(edge)] }),
  );
  const [width, height] = [Math.ceil(scene.width + 2 * MARGIN), Math.ceil(scene.height + 2 * MARGIN)];
  const svg = makeSvg(
    "svg",
    { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12.5 },
    makeSvg("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: "#ffffff" }),
    makeSvg("g", {}, ...lines),
    ...[...scene.boxes.values()].map(svgBox),
  );
  return new XMLSerializer().serializeToString(svg);
}

/**
 * @param {Placed} placed
 */
function svgBox({ box, rows, x, y, ports }) {
  const colour = box.tainted ? "#b3261e" : "#c3cad5";
  const names = rows.rows.map((field, at) => ({ field, port: [...ports.values()][at + 1] ?? 0 }));
  return makeSvg(
    "g",
    { transform: `translate(${x} ${y})` },
    makeSvg("rect", { width: SIZES.width, height: rows.height, rx: 8, fill: "#ffffff", stroke: colour }),
    makeSvg("text", { x: 12, y: 20, "font-weight": 600, "font-size": 13 }, makeSvg("title", {}, oneLine(box.dataset)), fitted(box.dataset, 30)),
    makeSvg("text", { x: 12, y: 36, fill: "#596273", "font-size": 11 }, fitted(box.ns, 36)),
    ...names.map(({ field, port }) =>
      makeSvg("text", { x: 12, y: port + 4, fill: field.tainted ? "#b3261e" : "#1a1f29" }, makeSvg("title", {}, oneLine(field.name)), fitted(field.name, 32)),
    ),
  );
}

/**
 * @param {string} text
 * @param {number} most
 */
function fitted(text, most) {
  const letters = [...oneLine(text)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
}
