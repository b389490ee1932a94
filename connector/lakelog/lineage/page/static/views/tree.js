/** The table view: a treegrid that shows what the graph shows, with the same lock and the same URL. */

import { parseLock } from "../data/names.js";
import { centreOn } from "../draw/pointer.js";
import { byId, icon, make } from "../ui/dom.js";
import { firstOpen, treeRows } from "./tree_rows.js";

/** @import {Change, Graph, Shown, State} from "../data/types.js" */
/** @import {TreeRow} from "./tree_rows.js" */

const HEADS = ["Dataset, column, direction", "Type", "How"];

/**
 * @param {() => State} get
 * @param {Change} change
 */
export function keepTree(get, change) {
  const host = byId("tree");
  const body = make("tbody");
  const head = make("tr", { role: "row" }, ...HEADS.map((words) => make("th", { role: "columnheader", scope: "col" }, words)));
  host.append(make("table", { role: "treegrid", "aria-label": "Lineage" }, make("thead", { role: "rowgroup" }, head), body));
  body.setAttribute("role", "rowgroup");
  /** @type {TreeRow[]} */
  let rows = [];
  let cursor = "";
  let revealed = "";

  /**
   * @param {Shown} shown
   */
  function update(shown) {
    const { state, graph } = shown;
    if (graph === null || graph.tooMany || state.view !== "tree") return;
    if (state.expanded.length === 0) {
      change({ expanded: firstOpen(graph, state.lock) }, "replace");
      return;
    }
    const hadFocus = body.contains(document.activeElement);
    rows = treeRows(shown, graph);
    if (!rows.some((row) => row.key === cursor)) cursor = nearest(rows, state, graph);
    body.replaceChildren(...rows.map((row, at) => makeRow(row, at, state, row.key === cursor)));
    if (hadFocus) focus(cursor);
    if (state.lock !== revealed) body.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    revealed = state.lock;
  }

  /**
   * @param {string} key
   */
  function focus(key) {
    const [before, at] = [rows.findIndex((row) => row.key === cursor), rows.findIndex((row) => row.key === key)];
    if (at < 0) return;
    body.children[before]?.setAttribute("tabindex", "-1");
    cursor = key;
    const row = body.children[at];
    row?.setAttribute("tabindex", "0");
    if (row instanceof HTMLElement) row.focus();
  }

  /**
   * @param {TreeRow} row
   * @param {boolean} isOpen
   */
  function unfold({ key }, isOpen) {
    const others = get().expanded.filter((one) => one !== key);
    const expanded = isOpen ? [...others, key] : others;
    change({ expanded: expanded.length > 0 ? expanded : ["none"] }, "replace");
  }

  /**
   * @param {TreeRow} row
   */
  function lock({ key, isOpen }) {
    const { lock: locked } = get();
    if (parseLock(key) !== null) change(key === locked ? { lock: "" } : { lock: key, drawer: true });
    else unfold({ ...blankRow, key }, !isOpen);
  }

  body.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const at = [...body.children].findIndex((row) => row.contains(target));
    const row = rows[at];
    if (row === undefined) return;
    focus(row.key);
    if (target.closest(".twist")) unfold(row, !row.isOpen);
    else lock(row);
  });

  body.addEventListener("keydown", (event) => {
    const at = rows.findIndex((row) => row.key === cursor);
    const row = rows[at];
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = rows.length - 1;
    const parent = rows.slice(0, at).findLast((one) => one.level < row.level);
    if (event.key === "ArrowDown") focus(rows[Math.min(at + 1, last)]?.key ?? cursor);
    else if (event.key === "ArrowUp") focus(rows[Math.max(at - 1, 0)]?.key ?? cursor);
    else if (event.key === "Home") focus(rows[0]?.key ?? cursor);
    else if (event.key === "End") focus(rows[last]?.key ?? cursor);
    else if (event.key === "PageDown") focus(rows[Math.min(at + 10, last)]?.key ?? cursor);
    else if (event.key === "PageUp") focus(rows[Math.max(at - 10, 0)]?.key ?? cursor);
    else if (event.key === "ArrowRight" && row.isOpen === false) unfold(row, true);
    else if (event.key === "ArrowRight" && row.isOpen) focus(rows[at + 1]?.key ?? cursor);
    else if (event.key === "ArrowLeft" && row.isOpen) unfold(row, false);
    else if (event.key === "ArrowLeft" && parent) focus(parent.key);
    else if (event.key === "Enter" || event.key === " ") lock(row);
    else if (event.key === "Escape" && get().lock) change({ lock: "" });
    else if (event.key === "c" && row.level <= 2 && parseLock(row.key)) change(centreOn(row.key.slice(row.key.indexOf("/") + 1)));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  return update;
}

/** @type {TreeRow} */
const blankRow = {
  key: "", level: 1, name: "", under: "", type: "", note: "", side: "", isOpen: null, at: 0, of: 0, isBad: false, isUnsure: false,
}; // prettier-ignore

/**
 * The row that a tab key leads to: what is locked, else the middle.
 * @param {TreeRow[]} rows
 * @param {State} state
 * @param {Graph} graph
 */
function nearest(rows, state, graph) {
  const keys = [state.lock, `dataset/${graph.root}`];
  return keys.find((key) => rows.some((row) => row.key === key)) ?? rows[0]?.key ?? "";
}

/**
 * @param {TreeRow} row
 * @param {number} at
 * @param {State} state
 * @param {boolean} isCursor
 */
function makeRow(row, at, state, isCursor) {
  const twist = make("span", { class: "twist", "aria-hidden": "true" });
  if (row.isOpen !== null) twist.append(icon(row.isOpen ? "fold" : "unfold"));
  const name = make(
    "td",
    { role: "gridcell", class: `first level-${row.level}` },
    make(
      "div",
      { class: "first-cell" },
      twist,
      make("span", { class: "name", title: row.name }, row.name),
      make("span", { class: "under", title: row.under }, row.under),
    ),
  );
  const classes = [`tree-row level-${row.level}`, row.isBad && "bad", row.isUnsure && "unsure"].filter(Boolean).join(" ");
  return make(
    "tr",
    {
      role: "row", id: `tree-${at}`, class: classes, "data-side": row.side || null, tabindex: isCursor ? 0 : -1,
      "aria-level": row.level, "aria-posinset": row.at, "aria-setsize": row.of, "aria-expanded": row.isOpen === null ? null : String(row.isOpen),
      "aria-selected": parseLock(row.key) === null ? null : String(row.key === state.lock),
    },
    name,
    make("td", { role: "gridcell", class: "type" }, row.type),
    make("td", { role: "gridcell", class: "note" }, row.note),
  ); // prettier-ignore
}
