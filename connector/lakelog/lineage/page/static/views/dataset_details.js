/** A dataset: its snapshots and what made each, its tags and branches, its columns. */

import { askDataset } from "../data/api.js";
import { join, oneLine } from "../data/names.js";
import { centreOn } from "../draw/pointer.js";
import { icon, make } from "../ui/dom.js";
import { section, waiting } from "../ui/parts.js";
import { count, timeText } from "../ui/words.js";

/** @import {Details} from "./drawer.js" */
/** @import {Change, Column, DatasetDetails, Snapshot, SnapshotSource, State, Taint} from "../data/types.js" */

/**
 * @param {Details} details
 */
export async function datasetDetails({ key, shown, change, signal, show }) {
  const taint = shown.graph?.boxes.get(key)?.tainted ?? null;
  const head = make(
    "div",
    { class: "buttons" },
    make("button", { type: "button", click: () => change(centreOn(key)) }, icon("centre"), "Centre on this dataset"),
  );
  show(head, waiting());
  const found = await askDataset(key, shown.state, null, signal);
  show(
    head,
    ...(taint ? [makeTaint(taint)] : []),
    ...makeRefs(found),
    section("Snapshots", makeSnapshots({ key, shown, change, signal }, found, taint)),
    section("Columns", makeColumns(key, found.fields, change)),
  );
}

/**
 * @param {Taint} taint
 */
function makeTaint({ from, lastClean }) {
  const clean = lastClean === null ? "No clean snapshot is known." : `The last clean snapshot is ${lastClean}.`;
  return make("p", { class: "taint" }, `Tainted from snapshot ${from}. ${clean}`);
}

/**
 * @param {DatasetDetails} found
 */
function makeRefs({ tags, branches }) {
  if (tags.length + branches.length === 0) return [];
  const items = [
    ...tags.map((tag) => make("li", { class: "ref" }, make("span", {}, tag.name), make("span", { class: "under" }, `tag of ${tag.snapshot}`))),
    ...branches.map((branch) => make("li", { class: "ref" }, make("span", {}, branch), make("span", { class: "under" }, "branch"))),
  ];
  return [section("Tags and branches", make("ul", { class: "refs" }, ...items))];
}

/**
 * @param {Omit<Details, 'show'>} details
 * @param {DatasetDetails} first
 * @param {Taint | null} taint
 */
function makeSnapshots({ key, shown, change, signal }, first, taint) {
  if (first.snapshots.length === 0) return make("p", { class: "muted" }, "None: this is not a table of the warehouse.");
  const list = make("ol", { class: "snapshots" });
  const older = make("button", { type: "button" }, "Older snapshots");
  let next = first.next;
  const add = (/** @type {Snapshot[]} */ snapshots) => {
    list.append(...snapshots.map((one) => makeSnapshot(key, one, taint, shown.state, change)));
    older.hidden = next === null;
  };
  older.addEventListener("click", async () => {
    older.disabled = true;
    try {
      const answer = await askDataset(key, shown.state, next, signal);
      next = answer.next;
      add(answer.snapshots);
    } finally {
      older.disabled = false;
    }
  });
  add(first.snapshots);
  return make("div", {}, list, older);
}

/**
 * @param {string} key
 * @param {Snapshot} snapshot
 * @param {Taint | null} taint
 * @param {State} asked
 * @param {Change} change
 */
function makeSnapshot(key, snapshot, taint, asked, change) {
  const isLastClean = taint !== null && taint.lastClean === snapshot.id;
  const state = snapshot.tainted ? "tainted" : isLastClean ? "last clean" : "";
  const facts = [timeText(snapshot.time), snapshot.operation?.toLowerCase(), snapshot.rows !== null && count(snapshot.rows, "row")];
  const at = String(snapshot.id);
  // A column in the middle stays there: then it alone is wrong.
  const middle = key === join(asked.ns, asked.dataset) ? {} : centreOn(key);
  const lineage = () => change({ ...centreOn(key), lock: `dataset/${key}`, at, start: "", end: "" });
  const wrong = () => change({ ...middle, lock: `dataset/${key}`, wrong: at, at: "" });
  return make(
    "li",
    { class: `snapshot ${snapshot.tainted ? "bad" : isLastClean ? "good" : ""}` },
    make("span", { class: "snapshot-id" }, at),
    make(
      "div",
      {},
      make(
        "p",
        {},
        make("span", { class: "job" }, snapshot.job ?? snapshot.operation?.toLowerCase() ?? "unknown job"),
        state && make("span", { class: `mark ${snapshot.tainted ? "bad" : "good"}` }, state),
        ...snapshot.tags.map((tag) => make("span", { class: "mark" }, tag)),
      ),
      make("p", { class: "under" }, facts.filter(Boolean).join(" · ")),
      snapshot.sources.length > 0 && make("p", { class: "under" }, "from ", ...listed(snapshot.sources.map((one) => sourceLink(one, change)))),
      make(
        "p",
        { class: "snapshot-verbs" },
        make("button", { type: "button", class: "link", "aria-label": `Lineage at snapshot ${at}`, click: lineage }, "Lineage at it"),
        make("button", { type: "button", class: "link", "aria-label": `Wrong from snapshot ${at} on`, click: wrong }, "Wrong from here on"),
      ),
    ),
  );
}

/**
 * @param {Node[]} nodes
 */
function listed(nodes) {
  return nodes.flatMap((node, at) => (at === 0 ? [node] : [", ", node]));
}

/**
 * @param {SnapshotSource} source Its table is named `database.table`.
 * @param {Change} change
 */
function sourceLink({ table, from, to }, change) {
  const [ns, dataset] = [table.slice(0, table.indexOf(".")), table.slice(table.indexOf(".") + 1)];
  const range = to === null ? "" : from === null || from === to ? ` ${to}` : ` ${from}–${to}`;
  return make("button", { type: "button", class: "link", click: () => change(centreOn(join(ns, dataset))) }, `${table}${range}`);
}

/**
 * @param {string} key
 * @param {Column[]} columns
 * @param {Change} change
 */
function makeColumns(key, columns, change) {
  const items = columns.map((column) => {
    const name = make("span", { class: "name" }, oneLine(column.name));
    const click = () => change({ lock: `field/${key}/${join(column.name)}` });
    return make(
      "li",
      {},
      column.hasLineage ? make("button", { type: "button", class: "link", click }, name) : name,
      make("span", { class: "note" }, column.state === "dropped" ? "dropped" : (column.type?.toLowerCase() ?? "")),
    );
  });
  return make("ul", { class: "columns" }, ...items);
}
