/** What is to be drawn and where: boxes with their rows and places, and the line of each edge. */

import { boxOf, fieldKey } from "../data/names.js";
import { portsOf, restPort, rowsOf, SIZES } from "../data/rows.js";
import { backCurve, curve, loopCurve } from "../layout/curves.js";
import { laneKey, layOut } from "../layout/layout.js";

/** @import {Shown, Graph, Box, BoxRows, Edge, Point} from "../data/types.js" */
/** @import {Layout} from "../layout/layout.js" */
/** @import {Line as Curve} from "../layout/curves.js" */

/**
 * A box in its place; `ports` are the rows that are drawn, with the middle of each from the top of the box.
 * @typedef {{box: Box, rows: BoxRows, x: number, y: number, ports: Map<string, number>}} Placed
 * A drawn edge; `isWhole` says whether both of its rows are drawn.
 * @typedef {{edge: Edge, line: Curve, isWhole: boolean}} Line
 * @typedef {{boxes: Map<string, Placed>, lines: Map<string, Line>, width: number, height: number, sign: string}} Scene
 */

/**
 * The scene of what is shown; the last one where nothing that is drawn has changed.
 * @param {Shown} shown
 * @param {Graph} graph
 * @param {Scene | null} last
 * @returns {Scene}
 */
export function makeScene({ state, path, columns }, graph, last) {
  const rows = new Map([...graph.boxes].map(([key, box]) => [key, rowsOf(box, state, path, columns.get(key))]));
  const sign = JSON.stringify([...rows].map(([key, of]) => [key, of.height, of.rows.map((row) => row.name), of.total, of.isAll]));
  const known = `${graph.edges.size} ${sign}`;
  if (last?.sign === known && sameEdges(graph, last)) return last;
  const ports = new Map([...rows].map(([key, of]) => [key, portsOf(of, key)]));
  const layout = layOut(itemsOf(graph, rows), linksOf(graph, rows, ports), SIZES.width);
  const boxes = new Map();
  for (const [key, box] of graph.boxes) {
    const { x, y } = /** @type {Point} */ (layout.at.get(key));
    boxes.set(key, { box, rows: rows.get(key), x, y, ports: ports.get(key) });
  }
  return { boxes, lines: linesOf(graph, boxes, layout), width: layout.width, height: layout.height, sign: known };
}

/**
 * @param {Graph} graph
 * @param {Scene} scene
 */
function sameEdges(graph, scene) {
  for (const [id, edge] of graph.edges) if (scene.lines.get(id)?.edge !== edge) return false;
  for (const [key, box] of graph.boxes) if (scene.boxes.get(key)?.box !== box) return false;
  return true;
}

/**
 * The boxes, what is most upstream first.
 * @param {Graph} graph
 * @param {Map<string, BoxRows>} rows
 */
function itemsOf(graph, rows) {
  return [...graph.boxes.values()]
    .sort((one, other) => one.hop - other.hop)
    .map((box) => ({ key: box.key, hop: box.hop, height: rows.get(box.key)?.height ?? 0 }));
}

/**
 * @param {Graph} graph
 * @param {Map<string, BoxRows>} rows
 * @param {Map<string, Map<string, number>>} ports
 */
function linksOf(graph, rows, ports) {
  const port = (/** @type {string} */ box, /** @type {string} */ end) =>
    ports.get(box)?.get(end) ?? restPort(/** @type {BoxRows} */ (rows.get(box)));
  return [...graph.edges.values()].map((edge) => ({
    source: edge.sourceBox,
    target: edge.targetBox,
    sourcePort: port(edge.sourceBox, edge.source),
    targetPort: port(edge.targetBox, edge.target),
  }));
}

/**
 * @param {Graph} graph
 * @param {Map<string, Placed>} boxes
 * @param {Layout} layout
 * @returns {Map<string, Line>}
 */
function linesOf(graph, boxes, layout) {
  const lines = new Map();
  for (const edge of graph.edges.values()) {
    const source = /** @type {Placed} */ (boxes.get(edge.sourceBox));
    const target = /** @type {Placed} */ (boxes.get(edge.targetBox));
    const isWhole = source.ports.has(edge.source) && target.ports.has(edge.target);
    lines.set(edge.id, { edge, line: lineOf(edge, source, target, layout), isWhole });
  }
  return lines;
}

/**
 * @param {Edge} edge
 * @param {Placed} source
 * @param {Placed} target
 * @param {Layout} layout
 */
function lineOf(edge, source, target, layout) {
  const from = { x: source.x + SIZES.width, y: portY(source, edge.source) };
  const to = { x: target.x, y: portY(target, edge.target) };
  if (source === target) return loopCurve({ x: source.x, y: from.y }, to);
  const lanes = layout.lanes.get(laneKey(edge.sourceBox, edge.targetBox)) ?? [];
  if (target.x > source.x) return curve(from, to, lanes, SIZES.width);
  const [bottomFrom, bottomTo] = [source.y + source.rows.height, target.y + target.rows.height];
  return backCurve({ at: from, bottom: bottomFrom }, { at: to, bottom: bottomTo }, lanes, SIZES.width);
}

/**
 * The height at which edges of a row end.
 * @param {Placed} placed
 * @param {string} end
 */
export function portY(placed, end) {
  return placed.y + (placed.ports.get(end) ?? restPort(placed.rows));
}

/**
 * The rectangle of a box, or of one of its rows.
 * @param {Scene} scene
 * @param {string} key
 */
export function rectangleOf(scene, key) {
  const placed = scene.boxes.get(boxOf(key));
  if (placed === undefined) return null;
  const { x, y, rows } = placed;
  if (key === placed.box.key || !placed.ports.has(key)) return { x, y, width: SIZES.width, height: rows.height };
  return { x, y: portY(placed, key) - SIZES.row / 2, width: SIZES.width, height: SIZES.row };
}

/**
 * How many edges of a column lead to rows that are drawn, of how many.
 * @param {Scene} scene
 * @param {Graph} graph
 * @param {string} box
 * @param {string} field
 */
export function drawnOf(scene, graph, box, field) {
  const key = fieldKey(box, field);
  const edges = [...(graph.into.get(key) ?? []), ...(graph.outOf.get(key) ?? [])];
  const drawn = edges.filter((edge) => scene.lines.get(edge.id)?.isWhole);
  return { drawn: drawn.length, total: edges.length };
}
