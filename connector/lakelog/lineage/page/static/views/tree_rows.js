/** The rows of the table view: datasets, their columns, and for each column what is up and down of it. */

import { fieldKey, oneLine, parseLock, split } from "../data/names.js";
import { edgesOf } from "../data/path.js";
import { count, hopText, kindsText } from "../ui/words.js";

/** @import {Box, Edge, Field, Graph, Path, Shown} from "../data/types.js" */

/**
 * A row. `key` is also the lock of a dataset, a column or an edge; of a direction it is not a lock.
 * @typedef {{key: string, level: number, name: string, under: string, type: string, note: string, side: string,
 *   isOpen: boolean | null, at: number, of: number, isBad: boolean, isUnsure: boolean}} TreeRow
 */

/**
 * All rows that are unfolded, from top to bottom.
 * @param {Shown} shown
 * @param {Graph} graph
 * @returns {TreeRow[]}
 */
export function treeRows({ state, path }, graph) {
  const open = new Set(state.expanded);
  const boxes = [...graph.boxes.values()].sort((one, other) => one.hop - other.hop || compare(one.dataset, other.dataset));
  return numbered(boxes.map((box) => boxRow(box, open, path))).flatMap((row, at) => {
    const box = /** @type {Box} */ (boxes[at]);
    return row.isOpen ? [row, ...rowsOfBox(graph, box, open, path)] : [row];
  });
}

/**
 * What is unfolded when a table opens: the middle, and the way to what is locked.
 * @param {Graph} graph
 * @param {string} lock
 * @returns {string[]}
 */
export function firstOpen(graph, lock) {
  const locked = parseLock(lock);
  const open = [`dataset/${graph.root}`];
  if (locked === null) return open;
  const [ns = "", dataset = "", field = "", toNs = "", toDataset = "", toField = ""] = locked.key.split("/");
  const isEdge = locked.kind === "edge";
  const box = isEdge ? `${toNs}/${toDataset}` : `${ns}/${dataset}`;
  open.push(`dataset/${box}`);
  const column = isEdge ? toField : field;
  if (isEdge) open.push(column ? `field/${box}/${column}` : "", `up/${column ? `${box}/${column}` : box}`);
  else if (column) open.push(`field/${box}/${column}`, `up/${box}/${column}`, `down/${box}/${column}`);
  return [...new Set(open.filter(Boolean))];
}

/**
 * @param {Box} box
 * @param {Set<string>} open
 * @param {Path | null} path
 * @returns {TreeRow}
 */
function boxRow(box, open, path) {
  const key = `dataset/${box.key}`;
  const taint = box.tainted ? `tainted from ${box.tainted.from}` : box.foreign ? "external" : "";
  return {
    ...blank, key, level: 1, name: oneLine(box.dataset), under: oneLine(box.ns), type: `${box.fields.size} of ${count(box.fieldCount, "column")}`,
    note: [hopText(box.hop), taint].filter(Boolean).join(", "), side: sideOf(path, box.key) || (path?.boxes.has(box.key) ? "on" : ""),
    isOpen: open.has(key), isBad: box.tainted !== null,
  }; // prettier-ignore
}

/** @type {TreeRow} */
const blank = {
  key: "", level: 1, name: "", under: "", type: "", note: "", side: "", isOpen: null, at: 0, of: 0, isBad: false, isUnsure: false,
}; // prettier-ignore

/**
 * @param {Graph} graph
 * @param {Box} box
 * @param {Set<string>} open
 * @param {Path | null} path
 */
function rowsOfBox(graph, box, open, path) {
  const columns = numbered(
    [...box.fields.values()].map((field) => fieldRow(graph, box, field, open, path)),
    graph.into.has(box.key) ? 1 : 0,
  );
  const rows = columns.flatMap((row) => (row.isOpen ? [row, ...sideRows(graph, row.key.slice("field/".length), 3, open, path)] : [row]));
  return [...sideRows(graph, box.key, 2, open, path), ...rows];
}

/**
 * @param {Graph} graph
 * @param {Box} box
 * @param {Field} field
 * @param {Set<string>} open
 * @param {Path | null} path
 * @returns {TreeRow}
 */
function fieldRow(graph, box, field, open, path) {
  const end = fieldKey(box.key, field.name);
  const key = `field/${end}`;
  const [up, down] = [edgesOf(graph, end, "up").length, edgesOf(graph, end, "down").length];
  const notes = [`${up} up, ${down} down`, field.tainted && "tainted", field.state === "dropped" && "dropped", field.generated && "generated"];
  return {
    ...blank, key, level: 2, name: oneLine(field.name), type: field.type?.toLowerCase() ?? "", note: notes.filter(Boolean).join(", "),
    side: sideOf(path, end), isOpen: up + down > 0 ? open.has(key) : null, isBad: field.tainted === true,
  }; // prettier-ignore
}

/**
 * The directions of a column, each with its edges; of a dataset, the columns that decide about its rows.
 * @param {Graph} graph
 * @param {string} end
 * @param {number} level
 * @param {Set<string>} open
 * @param {Path | null} path
 */
function sideRows(graph, end, level, open, path) {
  const sides = /** @type {const} */ (["up", "down"]).filter((side) => edgesOf(graph, end, side).length > 0);
  return sides.flatMap((side, at) => {
    const edges = edgesOf(graph, end, side);
    const key = `${side}/${end}`;
    const what = level === 2 ? "Rows decided by" : side === "up" ? "Made from" : "Used in";
    const of = level === 2 ? 1 + (graph.boxes.get(end)?.fields.size ?? 0) : sides.length;
    const row = { ...blank, key, level, name: `${what} ${count(edges.length, level === 2 || side === "up" ? "column" : "place")}`, isOpen: open.has(key), at: at + 1, of };
    return row.isOpen ? [row, ...numbered(edges.map((edge) => edgeRow(edge, side, level + 1, path)))] : [row];
  });
}

/**
 * @param {Edge} edge
 * @param {'up' | 'down'} side
 * @param {number} level
 * @param {Path | null} path
 * @returns {TreeRow}
 */
function edgeRow(edge, side, level, path) {
  const [, dataset = "", field = "all columns"] = split(side === "up" ? edge.source : edge.target);
  return {
    ...blank, key: `edge/${edge.id}`, level, name: oneLine(field), under: oneLine(dataset), note: kindsText(edge),
    side: path?.edges.get(edge.id) ?? "", isUnsure: edge.approximate || edge.opaque,
  }; // prettier-ignore
}

/**
 * @param {Path | null} path
 * @param {string} end
 */
function sideOf(path, end) {
  return path?.ends.get(end) ?? "";
}

/**
 * @param {TreeRow[]} rows
 * @param {number} before How many rows of the same parent stand before them.
 */
function numbered(rows, before = 0) {
  return rows.map((row, at) => ({ ...row, at: before + at + 1, of: before + rows.length }));
}

/**
 * @param {string} one
 * @param {string} other
 */
function compare(one, other) {
  return one < other ? -1 : Number(one > other);
}
