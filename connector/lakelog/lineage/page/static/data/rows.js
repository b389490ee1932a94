/** Which columns of a dataset are drawn as rows: at first those with lineage, and a page of them. */

import { fieldKey } from "./names.js";

/** @import {Box, BoxRows, Field, Path, State} from "./types.js" */

export const SIZES = { width: 224, header: 46, filter: 32, row: 24, footer: 28, end: 6 };
export const PAGE = 12;
const PATH_MAX = 12;
export const PAGE_MORE = 50;

/**
 * The rows of a box. A row of the locked path is drawn even where its page is not.
 * @param {Box} box
 * @param {State} state
 * @param {Path | null} path
 * @param {Field[] | undefined} columns All columns of the dataset, once they were loaded.
 * @returns {BoxRows}
 */
export function rowsOf(box, state, path, columns) {
  const isClosed = state.closed.includes(box.key);
  const isAll = state.all.includes(box.key) && columns !== undefined;
  const asked = (state.filter[box.key] ?? "").toLowerCase();
  const known = isAll ? withAll(box, columns) : [...box.fields.values()];
  const found = asked ? known.filter((field) => field.name.toLowerCase().includes(asked)) : known;
  const most = Number(state.rows[box.key] ?? PAGE);
  const rows = isClosed ? [] : drawnRows(box.key, found, most, path);
  const hasFilter = !isClosed && (known.length > PAGE || asked !== "");
  const hasFooter = !isClosed && (rows.length < Math.max(box.fieldCount, found.length) || isAll);
  const height =
    SIZES.header +
    (hasFilter ? SIZES.filter : 0) +
    rows.length * SIZES.row +
    (hasFooter ? SIZES.footer : 0) +
    (isClosed ? 0 : SIZES.end);
  return { rows, total: found.length, hasFilter, isAll, isClosed, height };
}

/**
 * The first rows, and behind them some of the path; the locked row in any case.
 * @param {string} key
 * @param {Field[]} found
 * @param {number} most
 * @param {Path | null} path
 */
function drawnRows(key, found, most, path) {
  let left = path !== null && path.starts <= 2 ? PATH_MAX : 0;
  return found.filter((field, at) => {
    const side = path?.ends.get(fieldKey(key, field.name));
    if (at < most || side === undefined) return at < most;
    return left-- > 0 || (side === "self" && path !== null && path.starts <= 2);
  });
}

/**
 * @param {Box} box
 * @param {Field[]} columns
 */
function withAll(box, columns) {
  const names = new Set(columns.map((column) => column.name));
  const dropped = [...box.fields.values()].filter((field) => !names.has(field.name));
  return [...columns.map((column) => box.fields.get(column.name) ?? column), ...dropped];
}

/**
 * Where the middle of each row is, from the top of its box; the middle of the header stands for the box.
 * @param {BoxRows} rows
 * @param {string} key
 * @returns {Map<string, number>}
 */
export function portsOf(rows, key) {
  const top = SIZES.header + (rows.hasFilter ? SIZES.filter : 0);
  const ports = new Map([[key, SIZES.header / 2]]);
  rows.rows.forEach((field, at) => ports.set(fieldKey(key, field.name), top + (at + 0.5) * SIZES.row));
  return ports;
}

/**
 * Where edges of rows that are not drawn end: the footer, or the header of a closed box.
 * @param {BoxRows} rows
 */
export function restPort(rows) {
  return rows.isClosed ? SIZES.header / 2 : rows.height - SIZES.end - SIZES.footer / 2;
}
