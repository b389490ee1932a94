/** An edge: its two ends, and each write that made it, with its SQL, operations and runs. */

import { askEdge } from "../data/api.js";
import { boxOf, join, oneLine, split } from "../data/names.js";
import { icon, make } from "../ui/dom.js";
import { section, waiting } from "../ui/parts.js";
import { count, kindsText, timeText } from "../ui/words.js";

/** @import {Details} from "./drawer.js" */
/** @import {Change, Operation, Run, Write} from "../data/types.js" */

const NAMED = 12;

/**
 * @param {Details} details
 */
export async function edgeDetails({ key, shown, change, signal, show }) {
  const edge = shown.graph?.edges.get(key);
  const isUnsure = edge && (edge.approximate || edge.opaque);
  const note = isUnsure ? make("p", { class: "muted" }, "Approximate: the source may have been used, it is not known how.") : "";
  const head = make("div", {}, makeEnds(key, change), note);
  show(head, waiting());
  const { writes } = await askEdge(key, shown.state, signal);
  if (writes.length === 0) {
    show(head, make("p", { class: "muted" }, "No write of this time made the edge."));
    return;
  }
  show(head, ...writes.map((write, at) => makeWrite(write, writes.length > 1 ? `Write ${at + 1} of ${writes.length}` : "Write")));
}

/**
 * @param {string} key
 * @param {Change} change
 */
function makeEnds(key, change) {
  const [fromNs = "", fromDataset = "", fromField = "", toNs = "", toDataset = "", toField = ""] = split(key);
  return make(
    "ol",
    { class: "ends" },
    makeEnd(join(fromNs, fromDataset, fromField), fromField, `${fromDataset} · ${fromNs}`, change),
    makeEnd(toField ? join(toNs, toDataset, toField) : join(toNs, toDataset), toField || "all columns", `${toDataset} · ${toNs}`, change),
  );
}

/**
 * @param {string} key
 * @param {string} name
 * @param {string} under
 * @param {Change} change
 */
function makeEnd(key, name, under, change) {
  const lock = `${key === boxOf(key) ? "dataset" : "field"}/${key}`;
  const words = [make("span", { class: "name" }, oneLine(name)), make("span", { class: "under" }, under)];
  return make("li", {}, make("button", { type: "button", class: "end", click: () => change({ lock }) }, ...words));
}

/**
 * @param {Write} write
 * @param {string} title
 */
function makeWrite(write, title) {
  return make(
    "article",
    { class: "write" },
    make("h3", {}, title, make("span", { class: "under" }, "job ", make("span", { class: "job" }, write.job))),
    make("p", { class: "how" }, kindsText({ ...write, masked: write.masked ?? false })),
    ...(write.sql ? [makeSql(write.sql)] : []),
    section("Operations", make("ol", { class: "operations" }, ...write.operations.map(makeOperation))),
    section(runsTitle(write.runs.length, write.runCount ?? 0), makeRuns(write.runs)),
  );
}

/**
 * @param {number} shown
 * @param {number} all
 */
function runsTitle(shown, all) {
  return all > shown ? `The newest ${shown} of ${count(all, "run")}` : count(shown, "run");
}

/**
 * @param {string} sql
 */
function makeSql(sql) {
  const copy = make(
    "button",
    {
      type: "button",
      class: "copy",
      click: () =>
        navigator.clipboard.writeText(sql).then(
          () => (copy.textContent = "Copied"),
          () => (copy.textContent = "Not allowed here"),
        ),
    },
    "Copy",
  );
  return section("SQL", make("div", { class: "sql" }, make("pre", { tabindex: 0, "aria-label": "SQL" }, make("code", {}, sql)), copy));
}

/**
 * @param {Operation} operation
 */
function makeOperation(operation) {
  const inputs = listed(operation.inputs.map((end) => end.field));
  const outputs = listed(operation.outputs);
  return make(
    "li",
    {},
    make("span", { class: "kind" }, operation.kind.toLowerCase()),
    make(
      "div",
      {},
      make("p", { class: "name" }, operation.name),
      operation.description && make("p", { class: "muted" }, operation.description),
      inputs + outputs && make("p", { class: "flow" }, inputs, icon("down"), outputs),
    ),
  );
}

/**
 * @param {string[]} names
 */
function listed(names) {
  const rest = names.length - NAMED;
  return names.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

/**
 * @param {Run[]} runs
 */
function makeRuns(runs) {
  const range = (/** @type {number | null} */ first, /** @type {number | null} */ last) => {
    if (first === null && last === null) return "–";
    return first === last || last === null ? String(first) : `${first ?? ""}–${last}`;
  };
  const rows = runs.map((run) =>
    make(
      "tr",
      {},
      make("td", { title: run.run }, [run.query ?? run.run.slice(0, 8), run.operation?.toLowerCase()].filter(Boolean).join(", ")),
      make("td", {}, timeText(run.firstTime), make("br"), timeText(run.lastTime)),
      make("td", { class: "number" }, range(run.firstBatch, run.lastBatch)),
      make("td", { class: "number" }, range(run.firstSnapshot, run.lastSnapshot)),
    ),
  );
  const heads = ["Run", "First and last time", "Batches", "Snapshots"];
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      { class: "facts" },
      make("thead", {}, make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words)))),
      make("tbody", {}, ...rows),
    ),
  );
}
