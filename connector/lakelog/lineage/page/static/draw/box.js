/** One dataset as a box: its name, its columns as rows, and the buttons that unfold more. */

import { fieldKey, oneLine } from "../data/names.js";
import { apply, icon, iconButton, make } from "../ui/dom.js";
import { count, hopText } from "../ui/words.js";
import { drawnOf } from "./scene.js";

/** @import {Box, Field, Graph, State} from "../data/types.js" */
/** @import {Placed, Scene} from "./scene.js" */

/**
 * The element of a box with its name alone, as it is seen from far.
 * @param {Placed} placed
 * @param {string} id
 * @param {boolean} isRoot
 */
export function makeBox({ box, rows, x, y }, id, isRoot) {
  const tainted = box.tainted === null ? "" : ` Tainted from snapshot ${box.tainted.from}.`;
  const element = make("div", {
    id,
    class: `box${isRoot ? " root" : ""}${box.foreign ? " foreign" : ""}${box.tainted ? " tainted" : ""}`,
    role: "graphics-object",
    "aria-roledescription": "dataset",
    "aria-label": `${box.dataset}, ${hopText(box.hop)}, ${columnsText(rows.rows.length, box.fieldCount)}.${tainted}`,
    "data-key": box.key,
  });
  // Not by a transform: each would be a layer of its own to be put together.
  element.style.left = `${x}px`;
  element.style.top = `${y}px`;
  element.style.height = `${rows.height}px`;
  element.append(make("div", { class: "far name", "aria-hidden": "true" }, oneLine(box.dataset)));
  return element;
}

/**
 * @param {number} drawn
 * @param {number} all
 */
function columnsText(drawn, all) {
  return `${drawn} of ${count(all, "column")} drawn`;
}

/**
 * A name that may be too long is cut, which costs a clip; most are not.
 * @param {string} name
 * @param {number} most
 */
function nameClass(name, most) {
  return name.length > most ? "name long" : "name";
}

/**
 * @param {Box} box
 * @param {boolean} isClosed
 */
function makeHead(box, isClosed) {
  const fold = iconButton(isClosed ? "unfold" : "fold", isClosed ? "Show columns" : "Hide columns", hidden("fold"));
  const centre = iconButton("centre", "Centre on this dataset", hidden("centre"));
  return make(
    "div",
    { class: "head" },
    make(
      "div",
      { class: "title" },
      make("div", { class: nameClass(box.dataset, 20), title: box.dataset }, oneLine(box.dataset)),
      make("div", { class: "under" }, make("span", { class: box.ns.length > 12 ? "ns long" : "ns", title: box.ns }, oneLine(box.ns)), ...marks(box)),
    ),
    centre,
    fold,
  );
}

/**
 * @param {Box} box
 */
function marks(box) {
  const found = [];
  if (box.foreign) found.push(make("span", { class: "mark", title: "Not a table of this warehouse" }, "external"));
  if (box.tainted) {
    const clean = box.tainted.lastClean;
    const title = clean === null ? "No clean snapshot is known" : `The last clean snapshot is ${clean}`;
    found.push(make("span", { class: "mark bad", title }, `tainted from ${box.tainted.from}`));
  }
  return found;
}

/**
 * The buttons in the graph are for the pointer; keys do the same, and the graph is one tab stop.
 * @param {string} action
 */
function hidden(action) {
  return { "data-action": action, tabindex: -1 };
}

/**
 * @param {Box} box
 * @param {'up' | 'down'} side
 */
function moreButton(box, side) {
  const words = side === "up" ? "One hop further upstream" : "One hop further downstream";
  const button = iconButton("plus", words, { ...hidden(`more-${side}`), "data-key": box.key });
  button.classList.add("more", side);
  return button;
}

/**
 * Draw the head and the rows of a box that came into view.
 * @param {HTMLElement} element
 * @param {Placed} placed
 * @param {Scene} scene
 * @param {Graph} graph
 * @param {State} state
 */
export function fillBox(element, placed, scene, graph, state) {
  const { box, rows } = placed;
  const near = make("div", { class: "near" }, makeHead(box, rows.isClosed));
  if (box.moreUp) near.append(moreButton(box, "up"));
  if (box.moreDown) near.append(moreButton(box, "down"));
  element.append(near);
  if (rows.isClosed) return;
  const parts = [];
  if (rows.hasFilter) parts.push(makeFilter(box, state.filter[box.key] ?? ""));
  parts.push(...rows.rows.map((field, at) => makeRow(field, placed, `${element.id}-${at}`, scene, graph)));
  const footer = makeFooter(placed);
  if (footer) parts.push(footer);
  near.append(make("div", { class: "rows" }, ...parts));
}

/**
 * Take down the rows of a box that is out of view.
 * @param {HTMLElement} element
 */
export function emptyBox(element) {
  element.querySelector(".near")?.remove();
}

/**
 * @param {Box} box
 * @param {string} value
 */
function makeFilter(box, value) {
  return make(
    "label",
    { class: "filter" },
    icon("search"),
    make("input", {
      type: "search", value, placeholder: "Filter columns", "aria-label": `Filter the columns of ${box.dataset}`,
      "data-filter": box.key, tabindex: -1, autocomplete: "off", spellcheck: "false",
    }),
  ); // prettier-ignore
}

/**
 * @param {Field} field
 * @param {Placed} placed
 * @param {string} id
 * @param {Scene} scene
 * @param {Graph} graph
 */
function makeRow(field, placed, id, scene, graph) {
  const key = fieldKey(placed.box.key, field.name);
  const { drawn, total } = drawnOf(scene, graph, placed.box.key, field.name);
  const [up, down] = [graph.into.get(key)?.length ?? 0, graph.outOf.get(key)?.length ?? 0];
  const note = drawn < total ? `${drawn} of ${total} drawn` : rowNote(field);
  const notes = [field.type ?? "", ...notesOf(field), `${up} in, ${down} out`].filter(Boolean);
  const row = make(
    "div",
    {
      id,
      class: "row",
      role: "graphics-symbol",
      "aria-roledescription": "column",
      "aria-label": `${field.name}, ${notes.join(", ")}`,
      "data-key": key,
      title: field.type ? `${field.name}: ${field.type}` : field.name,
    },
    make("span", { class: nameClass(field.name, 16) }, oneLine(field.name)),
    make("span", { class: note.length > 16 ? "note long" : "note" }, note),
  );
  apply(row, { "data-in": up > 0, "data-out": down > 0, "data-state": field.state ?? "present" });
  if (field.tainted) row.classList.add("tainted");
  if (up + down === 0) row.classList.add("idle");
  return row;
}

/**
 * @param {Field} field
 */
function rowNote(field) {
  return notesOf(field)[0] ?? field.type?.toLowerCase() ?? "";
}

/**
 * @param {Field} field
 */
function notesOf(field) {
  const notes = [];
  if (field.tainted) notes.push("tainted");
  if (field.state === "dropped") notes.push("dropped");
  if (field.generated) notes.push("generated");
  return notes;
}

/**
 * @param {Placed} placed
 */
function makeFooter({ box, rows }) {
  const all = Math.max(box.fieldCount, rows.total);
  if (rows.isClosed || (rows.rows.length >= all && !rows.isAll)) return null;
  const buttons = [];
  if (rows.rows.length < rows.total) buttons.push(make("button", { type: "button", ...hidden("rows") }, "More"));
  if (rows.isAll) buttons.push(make("button", { type: "button", title: "Only columns with lineage", ...hidden("fewer") }, "Fewer"));
  else if (box.fieldCount > box.fields.size) buttons.push(make("button", { type: "button", ...hidden("all") }, "All"));
  const words = make("span", {}, `${rows.rows.length} of ${count(all, "column")}`);
  return make("div", { class: "foot" }, words, make("span", { class: "foot-buttons" }, ...buttons));
}
