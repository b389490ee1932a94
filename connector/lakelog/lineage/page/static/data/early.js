/** The first question: it is asked while the other modules are still on their way. */

import { askGraphs } from "./api.js";
import { SEARCH } from "./saved.js";
import { isAskedAgain, parse } from "./state.js";

/** @import {GraphAnswer, State} from "./types.js" */

const state = parse(SEARCH);
let answers = state.dataset ? askGraphs(state, new AbortController().signal) : null;
answers?.catch(() => {}); // whoever takes the answers learns of it

/**
 * The answers to the first question, once, if they are those of a state.
 * @param {State} wanted
 * @returns {Promise<GraphAnswer[]> | null}
 */
export function takeEarly(wanted) {
  const taken = isAskedAgain(state, wanted) ? null : answers;
  answers = null;
  return taken;
}
