/** Where an arrow key leads: along an edge to the left and right, to the next row or box above and below. */

import { boxOf, fieldKey } from "../data/names.js";
import { portY } from "./scene.js";

/** @import {Graph, Edge} from "../data/types.js" */
/** @import {Placed, Scene} from "./scene.js" */

/**
 * @param {Scene} scene
 * @param {Graph} graph
 * @param {string} from A drawn row or box.
 * @param {'left' | 'right' | 'up' | 'down'} side
 * @returns {string} Where it leads; `from` where there is nothing.
 */
export function moveFrom(scene, graph, from, side) {
  const placed = scene.boxes.get(boxOf(from));
  if (placed === undefined) return graph.root;
  if (side === "up" || side === "down") return moveInColumn(scene, placed, from, side);
  return endsBeside(scene, graph, from, side)[0] ?? from;
}

/**
 * The drawn ends of the edges on one side, the nearest first.
 * @param {Scene} scene
 * @param {Graph} graph
 * @param {string} from
 * @param {'left' | 'right'} side
 */
export function endsBeside(scene, graph, from, side) {
  const placed = /** @type {Placed} */ (scene.boxes.get(boxOf(from)));
  const y = portY(placed, from);
  const ends = edgesBeside(graph, placed, from, side).map((edge) => {
    const [box, end] = side === "left" ? [edge.sourceBox, edge.source] : [edge.targetBox, edge.target];
    return scene.boxes.get(box)?.ports.has(end) && from !== placed.box.key ? end : box;
  });
  const away = (/** @type {string} */ end) => Math.abs(portY(/** @type {Placed} */ (scene.boxes.get(boxOf(end))), end) - y);
  return [...new Set(ends)].filter((end) => end !== from).sort((one, other) => away(one) - away(other));
}

/**
 * The edges of a row; of a box, those of all its columns too.
 * @param {Graph} graph
 * @param {Placed} placed
 * @param {string} from
 * @param {'left' | 'right'} side
 * @returns {Edge[]}
 */
function edgesBeside(graph, { box }, from, side) {
  const edges = side === "left" ? graph.into : graph.outOf;
  const own = edges.get(from) ?? [];
  if (from !== box.key) return own;
  return [...own, ...[...box.fields.keys()].flatMap((name) => edges.get(fieldKey(box.key, name)) ?? [])];
}

/**
 * @param {Scene} scene
 * @param {Placed} placed
 * @param {string} from
 * @param {'up' | 'down'} side
 */
function moveInColumn(scene, placed, from, side) {
  const own = [...placed.ports.keys()];
  const at = Math.max(own.indexOf(from), 0) + (side === "up" ? -1 : 1);
  const next = own[at];
  if (next !== undefined) return next;
  const column = [...scene.boxes.values()].filter((other) => other.x === placed.x).sort((one, other) => one.y - other.y);
  const beside = column[column.indexOf(placed) + (side === "up" ? -1 : 1)];
  if (beside === undefined) return from;
  return (side === "up" ? [...beside.ports.keys()].at(-1) : undefined) ?? beside.box.key;
}
