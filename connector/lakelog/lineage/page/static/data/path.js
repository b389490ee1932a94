/** What leads to a column, a dataset or an edge, and what is made of it, in what is drawn. */

import { boxOf, fieldKey, parseLock } from "./names.js";

/** @import {Graph, Path, Edge} from "./types.js" */

/**
 * The path of a lock; null where nothing of it is drawn.
 * @param {Graph} graph
 * @param {string} lock
 * @param {string} direction
 * @returns {Path | null}
 */
export function pathOf(graph, lock, direction) {
  const locked = parseLock(lock);
  if (locked === null) return null;
  /** @type {Path} */
  const path = { ends: new Map(), edges: new Map(), boxes: new Set(), starts: 2 };
  if (locked.kind === "edge") {
    const edge = graph.edges.get(locked.key);
    if (edge === undefined) return null;
    path.edges.set(edge.id, "self");
    if (direction !== "down") follow(graph, path, [edge.source], "up");
    if (direction !== "up") follow(graph, path, [edge.target], "down");
    for (const end of [edge.source, edge.target]) path.ends.set(end, "self");
  } else {
    const box = graph.boxes.get(boxOf(locked.key));
    if (box === undefined) return null;
    const names = [...box.fields.keys()].map((name) => fieldKey(box.key, name));
    const starts = locked.kind === "field" ? [locked.key] : [box.key, ...names];
    path.starts = starts.length;
    if (direction !== "down") follow(graph, path, [...starts, box.key], "up");
    if (direction !== "up") follow(graph, path, starts, "down");
    for (const start of starts) path.ends.set(start, "self");
  }
  for (const end of path.ends.keys()) path.boxes.add(boxOf(end));
  return path;
}

/**
 * Follow edges from some ends. What decides about rows alone is shown, and not followed further.
 * @param {Graph} graph
 * @param {Path} path
 * @param {string[]} starts
 * @param {'up' | 'down'} side
 */
function follow(graph, path, starts, side) {
  const edgesOf = side === "up" ? graph.into : graph.outOf;
  const waiting = [...starts];
  const followed = new Set(starts);
  for (let end = waiting.pop(); end !== undefined; end = waiting.pop()) {
    for (const edge of edgesOf.get(end) ?? []) {
      if (!path.edges.has(edge.id)) path.edges.set(edge.id, side);
      const other = side === "up" ? edge.source : edge.target;
      if (!path.ends.has(other)) path.ends.set(other, side);
      if (edge.targetField === null || followed.has(other)) continue;
      followed.add(other);
      waiting.push(other);
    }
  }
}

/**
 * How many columns of a path lie on one side.
 * @param {Path} path
 * @param {'up' | 'down'} side
 */
export function countOf(path, side) {
  return [...path.ends].filter(([end, of]) => of === side && end !== boxOf(end)).length;
}

/**
 * The edges of an end on one side, none twice.
 * @param {Graph} graph
 * @param {string} key
 * @param {'up' | 'down'} side
 * @returns {Edge[]}
 */
export function edgesOf(graph, key, side) {
  return (side === "up" ? graph.into : graph.outOf).get(key) ?? [];
}
