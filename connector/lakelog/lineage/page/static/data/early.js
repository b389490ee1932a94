/** The first question: it is asked while the other modules are still on their way. */

import { askGraphs } from "./api.js";
import { ASKED, parse } from "./state.js";

/** @import {GraphAnswer, State} from "./types.js" */

const state = parse(location.search);
let answers = state.dataset ? askGraphs(state, new AbortController().signal) : null;
answers?.catch(() => {}); // whoever takes the answers learns of it

/**
 * The answers to the first question, once, if they are those of a state.
 * @param {State} wanted
 * @returns {Promise<GraphAnswer[]> | null}
 */
export function takeEarly(wanted) {
  const taken = ASKED.every((name) => JSON.stringify(wanted[name]) === JSON.stringify(state[name])) ? answers : null;
  answers = null;
  return taken;
}
