/** The questions to the server. Each answer is JSON; a refusal is an Error with the server's sentence. */

import { split } from "./names.js";
import { IS_SAVED, given, savedAnswer } from "./saved.js";

/** @import {State, GraphAnswer, SearchAnswer, EdgeOperations, DatasetDetails, ImpactAnswer} from "./types.js" */

/**
 * @param {string} path
 * @param {Record<string, string | number | null>} query What is null or empty is left out.
 * @param {AbortSignal} [signal]
 */
async function ask(path, query, signal) {
  if (IS_SAVED) return savedAnswer(path, query);
  const asked = new URLSearchParams(given(query));
  let response;
  try {
    response = await fetch(`api/${path}?${asked}`, { signal, headers: headers() });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("The server does not answer. Check that it runs, then load the page again.");
  }
  if (response.ok) return response.json();
  if (response.status === 401) throw new Error("The server asks for a token: open the address that `lakelog lineage serve` printed.");
  const body = await response.json().catch(() => ({}));
  throw new Error(typeof body.error === "string" ? body.error : `The server refused: status ${response.status}.`);
}

/** The token of the server, which the address has behind its `#`, is kept for this tab and taken out of the address. */
function headers() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const token = sessionStorage.getItem("token");
  return { accept: "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
}

/**
 * Whether an error is the end of a question that nobody waits for any more.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * @param {State} state
 */
function span(state) {
  return state.at ? { at: state.at, start: "", end: "" } : { at: "", start: state.start, end: state.end };
}

/**
 * The graphs to draw: that of the root, and one hop for each box that was asked for more.
 * @param {State} state
 * @param {AbortSignal} signal
 * @returns {Promise<GraphAnswer[]>}
 */
export function askGraphs(state, signal) {
  const { ns, dataset, field, direction, depth, limit, kinds, wrong } = state;
  const root = ask("graph", { ns, dataset, field, direction, depth, limit, kinds, wrong, ...span(state) }, signal);
  const further = state.more.map((asked) => {
    const [boxNs = "", boxName = "", side = "up"] = split(asked);
    const { start, end } = state;
    return ask("graph", { ns: boxNs, dataset: boxName, direction: side, depth: 1, limit, kinds, start, end }, signal);
  });
  return Promise.all([root, ...further]);
}

/**
 * @param {string} q
 * @param {number} limit
 * @param {number} offset
 * @param {AbortSignal} [signal]
 * @returns {Promise<SearchAnswer>}
 */
export function askSearch(q, limit, offset, signal) {
  return ask("search", { q, limit, offset }, signal);
}

/**
 * What made the target of an edge from its source. The key of the edge has the names of both ends.
 * @param {string} key
 * @param {State} state
 * @param {AbortSignal} signal
 * @returns {Promise<EdgeOperations>}
 */
export function askEdge(key, state, signal) {
  const [fromNs = "", fromDataset = "", fromField = "", toNs = "", toDataset = "", toField = ""] = split(key);
  const ends = { fromNs, fromDataset, fromField, toNs, toDataset, toField };
  return ask("edge", { ...ends, start: state.start, end: state.end }, signal);
}

/**
 * The columns of a dataset, and its snapshots before one of them; tainted ones where the middle has a wrong snapshot.
 * @param {string} key
 * @param {State} state
 * @param {number | null} before
 * @param {AbortSignal} [signal]
 * @returns {Promise<DatasetDetails>}
 */
export function askDataset(key, state, before, signal) {
  const [ns = "", dataset = ""] = split(key);
  const from = { wrong: state.wrong, wrongNs: state.ns, wrongDataset: state.dataset, wrongField: state.field };
  return ask("dataset", { ns, dataset, limit: 50, before, ...(state.wrong ? from : {}) }, signal);
}

/**
 * What is made of a column, however far away.
 * @param {string} key
 * @param {State} state
 * @param {AbortSignal} signal
 * @returns {Promise<ImpactAnswer>}
 */
export function askImpact(key, state, signal) {
  const [ns = "", dataset = "", field = ""] = split(key);
  const { kinds, start, end } = state;
  return ask("impact", { ns, dataset, field, depth: 20, limit: 500, kinds, start, end }, signal);
}
