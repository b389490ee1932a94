/** The controls above the graph: direction, depth, view and export, and the line that says what is drawn. */

import { DEPTH_MAX, centred } from "../data/state.js";
import { oneLine } from "../data/names.js";
import { byId, icon, iconButton, make } from "../ui/dom.js";
import { count, drawnText, spanText } from "../ui/words.js";
import { FORMATS } from "./export.js";

/** @import {Change, Shown, State} from "../data/types.js" */

/**
 * @param {() => State} get
 * @param {Change} change
 * @param {(format: string) => void} exportAs
 */
export function keepToolbar(get, change, exportAs) {
  const directions = segments("direction", [
    ["up", "Up", "What it is made from"],
    ["both", "Both", "Both directions"],
    ["down", "Down", "What is made of it"],
  ], (direction) => change({ direction, more: [], place: null })); // prettier-ignore
  const views = segments("view", [
    ["graph", "Graph", "Boxes and edges"],
    ["tree", "Table", "The same as a table"],
  ], (view) => change({ view })); // prettier-ignore
  const depth = make("output", { class: "depth-words" });
  const fewer = iconButton("minus", "Fewer hops", { click: () => step(get, change, -1) });
  const more = iconButton("plus", "More hops", { click: () => step(get, change, 1) });
  byId("depth").append(fewer, depth, more);
  const kinds = /** @type {HTMLInputElement} */ (byId("kinds").firstElementChild);
  kinds.addEventListener("change", () => change({ kinds: kinds.checked ? "" : "direct" }));
  const menu = /** @type {HTMLDetailsElement} */ (byId("export"));
  menu.lastElementChild?.append(
    ...FORMATS.map(([format, words]) =>
      make("button", { type: "button", click: () => ((menu.open = false), exportAs(format)) }, words),
    ),
  );
  menu.addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node && menu.contains(event.relatedTarget))) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
    event.stopPropagation();
  });

  /**
   * @param {Shown} shown
   */
  return ({ state, graph }) => {
    byId("controls").classList.toggle("at-start", state.dataset === "");
    directions(state.direction);
    views(state.view);
    depth.textContent = count(state.depth, "hop");
    fewer.disabled = state.depth <= 1;
    more.disabled = state.depth >= DEPTH_MAX;
    kinds.checked = state.kinds === "";
    menu.hidden = graph === null || graph.tooMany;
    byId("line").hidden = state.dataset === "";
    byId("root").textContent = oneLine(state.field ? `${state.dataset}.${state.field}` : state.dataset);
    byId("root-ns").textContent = state.ns;
    byId("drawn").textContent = graph ? drawnText(graph, state) : "";
    byId("chips").replaceChildren(...chips(state, change));
  };
}

/**
 * One hop more or fewer. Boxes that were asked for alone may lie within the new depth, or hang loose: they go.
 * @param {() => State} get
 * @param {Change} change
 * @param {number} by
 */
export function step(get, change, by) {
  const depth = Math.min(Math.max(get().depth + by, 1), DEPTH_MAX);
  if (depth !== get().depth) change({ depth, more: [] });
}

/**
 * Radio buttons that look like one bar.
 * @param {string} id
 * @param {[string, string, string][]} options Value, word and tooltip.
 * @param {(value: string) => void} take
 */
function segments(id, options, take) {
  const inputs = options.map(([value]) => make("input", { type: "radio", name: id, value, change: () => take(value) }));
  byId(id).append(...options.map(([, word, title], at) => make("label", { title }, inputs[at] ?? "", make("span", {}, word))));
  return (/** @type {string} */ value) => {
    for (const input of inputs) input.checked = input.value === value;
  };
}

/**
 * What narrows the graph, each with a button that lifts it.
 * @param {State} state
 * @param {Change} change
 */
function chips(state, change) {
  const made = [];
  if (state.field) {
    made.push(chip("This column alone", () => change(centred(state.ns, state.dataset))));
  }
  if (state.at) made.push(chip(spanText(state), () => change({ at: "", place: null })));
  if (state.wrong) made.push(chip(`Wrong from snapshot ${state.wrong} on`, () => change({ wrong: "" })));
  if (state.more.length > 0) {
    made.push(chip(`${count(state.more.length, "box")} unfolded`.replace("boxs", "boxes"), () => change({ more: [] })));
  }
  return made;
}

/**
 * @param {string} words
 * @param {() => void} lift
 */
function chip(words, lift) {
  return make("button", { type: "button", class: "chip", "aria-label": `${words}: remove`, click: lift }, words, icon("close"));
}
