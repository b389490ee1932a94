/** What a page in a file answers from, in place of a server: the writer of the file has put it there. */

/** @typedef {Record<string, string | number | null>} Query What is null or empty is left out. */

/** @type {{search: string, answers: {path: string, query: Query, answer: object}[]} | null} */
const saved = JSON.parse(document.getElementById("saved")?.textContent ?? "null");
const answers = new Map(saved?.answers.map(({ path, query, answer }) => [keyOf(path, query), answer]));

/** Whether the page is in a file. */
export const IS_SAVED = saved !== null;

/** The state of the page at its start, as the query of a URL. */
export const SEARCH = saved?.search ?? location.search;

/**
 * The names and values of a question that are given.
 * @param {Query} query
 * @returns {[string, string][]}
 */
export function given(query) {
  return Object.entries(query).flatMap(([name, value]) => (value === null || value === "" ? [] : [[name, String(value)]]));
}

/**
 * The answer to a question, if the file has it.
 * @param {string} path
 * @param {Query} query
 */
export function savedAnswer(path, query) {
  const answer = answers.get(keyOf(path, query));
  if (answer === undefined) throw new Error("This file does not have it. `lakelog lineage serve` shows everything.");
  return answer;
}

/**
 * @param {string} path
 * @param {Query} query
 */
function keyOf(path, query) {
  return JSON.stringify([path, ...given(query).sort()]);
}
