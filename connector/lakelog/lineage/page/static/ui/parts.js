/** Small parts that several views have. */

import { make } from "./dom.js";

/**
 * A part with a heading.
 * @param {string} title
 * @param {...(Node | string)} children
 */
export function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

/** What stands where an answer is awaited. */
export function waiting() {
  return make("p", { class: "muted waiting" }, "Loading…");
}
