/** The sentences and words of the page. */

/** @import {Edge, Graph, State, Path} from "../data/types.js" */

import { countOf } from "../data/path.js";
import { parseLock, split } from "../data/names.js";

/**
 * @param {number} number
 * @param {string} noun
 */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** What the name of each kind of an edge says. */
const KINDS = new Map([
  ["IDENTITY", "copied"],
  ["TRANSFORMATION", "computed"],
  ["AGGREGATION", "aggregated"],
  ["JOIN", "joins rows"],
  ["FILTER", "filters rows"],
  ["SORT", "sorts rows"],
  ["GROUP_BY", "groups rows"],
  ["WINDOW", "in a window"],
  ["CONDITIONAL", "decides a value"],
  ["ROWS", "gives rows"],
  ["OPAQUE", "by opaque code"],
]);

/**
 * How a column is made, in words.
 * @param {Pick<Edge, 'kinds' | 'masked' | 'approximate' | 'opaque'>} edge
 */
export function kindsText(edge) {
  const words = edge.kinds.map((kind) => KINDS.get(kind) ?? kind.toLowerCase().replaceAll("_", " "));
  if (edge.masked) words.push("masked");
  if (edge.opaque && !edge.kinds.includes("OPAQUE")) words.push("by opaque code");
  else if (edge.approximate) words.push("approximate");
  return words.join(", ");
}

/**
 * What is drawn, in one sentence.
 * @param {Graph} graph
 * @param {State} state
 */
export function drawnText(graph, state) {
  if (graph.tooMany) return `${count(graph.total, "dataset")} found, listed instead of drawn.`;
  if (graph.boxes.size === 1 && graph.edges.size === 0) return `No lineage: ${spanText(state)}.`;
  return `${count(graph.boxes.size, "dataset")}, ${count(graph.edges.size, "edge")}, ${spanText(state)}.`;
}

/**
 * @param {State} state
 */
export function spanText(state) {
  if (state.at) return `at snapshot ${state.at}`;
  if (!state.start && !state.end) return "all time";
  const since = /^now-(\d+)([mhd])$/.exec(state.start);
  const units = { m: "minute", h: "hour", d: "day" };
  if (since && (!state.end || state.end === "now")) {
    const unit = units[/** @type {'m' | 'h' | 'd'} */ (since[2])];
    return `last ${Number(since[1]) === 1 ? unit : count(Number(since[1]), unit)}`;
  }
  const from = state.start ? `from ${timeText(state.start)} ` : "";
  return `${from}${state.end ? `until ${timeText(state.end)}` : ""}`.trim();
}

/**
 * A time of the API as people read it: seconds, an expression such as now-7d, or an ISO time.
 * @param {string} text
 */
export function timeText(text) {
  const time = /^\d+$/.test(text) ? new Date(Number(text) * 1000) : new Date(text);
  if (Number.isNaN(time.getTime())) return text;
  const pad = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const day = `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
  return `${day} ${pad(time.getHours())}:${pad(time.getMinutes())}`;
}

/**
 * The name of what is locked, without its namespace.
 * @param {string} lock
 */
export function lockName(lock) {
  const locked = parseLock(lock);
  if (locked === null) return "";
  const [, dataset = "", field = "", , toDataset = "", toField = ""] = split(locked.key);
  if (locked.kind === "dataset") return dataset;
  if (locked.kind === "field") return `${dataset}.${field}`;
  return `${dataset}.${field} to ${toDataset}${toField ? `.${toField}` : ""}`;
}

/**
 * What a lock shows, for those who do not see it.
 * @param {string} lock
 * @param {Path | null} path
 */
export function lockText(lock, path) {
  if (!lock) return "Freed.";
  if (path === null) return `${lockName(lock)} is not drawn.`;
  return `${lockName(lock)} is locked: ${count(countOf(path, "up"), "column")} upstream, ${count(countOf(path, "down"), "column")} downstream.`;
}

/**
 * @param {number} hop
 */
export function hopText(hop) {
  if (hop === 0) return "in the middle";
  return `${count(Math.abs(hop), "hop")} ${hop < 0 ? "upstream" : "downstream"}`;
}
