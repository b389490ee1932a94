/** The state of the page and the URL are one: what is not in the URL is not kept. A page in a file keeps no URL. */

import { join, split } from "./names.js";
import { IS_SAVED, SEARCH } from "./saved.js";

/** @import {State, Place, Change} from "./types.js" */

/** @type {State} */
export const START = {
  ns: "",
  dataset: "",
  field: "",
  direction: "both",
  depth: 2,
  limit: 60,
  start: "",
  end: "",
  at: "",
  wrong: "",
  kinds: "",
  view: "graph",
  lock: "",
  drawer: true,
  q: "",
  more: [],
  closed: [],
  all: [],
  rows: {},
  filter: {},
  expanded: [],
  place: null,
};

export const DEPTH_MAX = 20;
export const DRAWN_MAX = 400;

/** What decides about the graph: a change of one of these asks the server again. */
const ASKED = /** @type {const} */ ([
  "ns", "dataset", "field", "direction", "depth", "limit", "start", "end", "at", "wrong", "kinds", "more",
]);

const WORDS = /** @type {const} */ (["ns", "dataset", "field", "start", "end", "at", "wrong", "lock", "q"]);
const LISTS = /** @type {const} */ (["more", "closed", "all", "expanded"]);
const RECORDS = /** @type {const} */ (["rows", "filter"]);

/**
 * The state that the query of a URL names; what it does not name, or names wrongly, is as at the start.
 * @param {string} search
 * @returns {State}
 */
export function parse(search) {
  const given = new URLSearchParams(search);
  const state = structuredClone(START);
  for (const name of WORDS) state[name] = given.get(name) ?? "";
  for (const name of LISTS) state[name] = given.getAll(name);
  for (const name of RECORDS) state[name] = parseRecord(given.getAll(name));
  state.direction = oneOf(given.get("direction"), ["up", "down", "both"], START.direction);
  state.view = oneOf(given.get("view"), ["graph", "tree"], START.view);
  state.kinds = oneOf(given.get("kinds"), ["direct"], START.kinds);
  state.depth = whole(given.get("depth"), 1, DEPTH_MAX, START.depth);
  state.limit = whole(given.get("limit"), 1, DRAWN_MAX, START.limit);
  state.drawer = given.get("drawer") !== "0";
  state.place = parsePlace(given.get("place"));
  return state;
}

/**
 * The query of the URL of a state, without what is as at the start.
 * @param {State} state
 */
export function format(state) {
  const made = new URLSearchParams();
  for (const name of WORDS) if (state[name]) made.set(name, state[name]);
  for (const name of /** @type {const} */ (["direction", "depth", "limit", "kinds", "view"])) {
    if (state[name] !== START[name]) made.set(name, String(state[name]));
  }
  if (!state.drawer) made.set("drawer", "0");
  for (const name of LISTS) for (const value of state[name]) made.append(name, value);
  for (const name of RECORDS) {
    for (const [key, value] of Object.entries(state[name])) made.append(name, `${key}/${join(value)}`);
  }
  if (state.place) made.set("place", placeText(state.place));
  const text = made.toString().replaceAll("%2F", "/"); // a slash is allowed in a query, and reads better
  return text ? `?${text}` : "";
}

/**
 * @param {string[]} given
 * @returns {Record<string, string>}
 */
function parseRecord(given) {
  return Object.fromEntries(
    given.map((text) => {
      const [ns = "", dataset = "", value = ""] = split(text);
      return [join(ns, dataset), value];
    }),
  );
}

/**
 * @param {string | null} text
 * @param {string[]} allowed
 * @param {string} otherwise
 */
function oneOf(text, allowed, otherwise) {
  return text !== null && allowed.includes(text) ? text : otherwise;
}

/**
 * @param {string | null} text
 * @param {number} least
 * @param {number} most
 * @param {number} otherwise
 */
function whole(text, least, most, otherwise) {
  return text !== null && /^\d{1,6}$/.test(text) ? Math.min(Math.max(Number(text), least), most) : otherwise;
}

/**
 * @param {string | null} text
 * @returns {Place | null}
 */
function parsePlace(text) {
  const [x = NaN, y = NaN, k = NaN] = (text ?? "").split(",").map((part) => (part ? Number(part) : NaN));
  return Number.isFinite(x + y + k) && k > 0 ? { x, y, k: Math.min(Math.max(k, 0.05), 2) } : null;
}

/**
 * @param {Place} place
 */
function placeText({ x, y, k }) {
  return [Math.round(x), Math.round(y), Number(k.toFixed(3))].join(",");
}

/**
 * The state of the page, kept in the URL. `onChange` is called after each change, with the state before it;
 * `onRefused` for a change to a graph that a page in a file does not have.
 * @param {(state: State, before: State) => void} onChange
 * @param {() => void} onRefused
 * @returns {{get: () => State, change: Change}}
 */
export function keepState(onChange, onRefused) {
  let state = parse(SEARCH);
  addEventListener("popstate", () => {
    const before = state;
    state = parse(location.search);
    onChange(state, before);
  });
  return {
    get: () => state,
    change: (patch, how = "push") => {
      const before = state;
      const next = { ...state, ...patch };
      if (IS_SAVED && isAskedAgain(before, next)) return onRefused();
      state = next;
      const isMoved = Object.keys(patch).every((name) => name === "place");
      const url = `${location.pathname}${format(state)}`;
      if (!IS_SAVED && url !== location.pathname + location.search) {
        if (how === "push") history.pushState(null, "", url);
        else history.replaceState(null, "", url);
      }
      if (!isMoved) onChange(state, before); // the picture is there already
    },
  };
}

/**
 * Whether a state has another graph than the one before it.
 * @param {State} before
 * @param {State} state
 */
export function isAskedAgain(before, state) {
  return ASKED.some((name) => JSON.stringify(state[name]) !== JSON.stringify(before[name]));
}

/**
 * The change that puts another dataset, or one of its columns, in the middle.
 * @param {string} ns
 * @param {string} dataset
 * @param {string} [field]
 * @returns {Partial<State>}
 */
export function centred(ns, dataset, field = "") {
  const lock = field ? `field/${join(ns, dataset, field)}` : "";
  const cleared = { more: [], closed: [], all: [], rows: {}, filter: {}, expanded: [], place: null };
  return { ns, dataset, field, lock, at: "", wrong: "", q: "", limit: START.limit, ...cleared };
}
