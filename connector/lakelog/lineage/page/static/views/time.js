/** The time of the lineage: presets, and a range of the user's own. */

import { byId, make } from "../ui/dom.js";

/** @import {Change, State} from "../data/types.js" */

const PRESETS = [
  ["", "All time"],
  ["now-1h", "Last hour"],
  ["now-1d", "Last day"],
  ["now-7d", "Last 7 days"],
  ["now-30d", "Last 30 days"],
  ["now-182d", "Last 6 months"],
  ["now-365d", "Last year"],
];
const OWN = "own";
const AT = "at";

/**
 * @param {() => State} get
 * @param {Change} change
 */
export function keepTime(get, change) {
  const select = /** @type {HTMLSelectElement} */ (byId("time"));
  const at = make("option", { value: AT, hidden: true }, "At a snapshot");
  select.append(...PRESETS.map(([value = "", words = ""]) => make("option", { value }, words)));
  select.append(make("option", { value: OWN }, "Range…"), at);
  const dialog = makeDialog(get, change);

  select.addEventListener("change", () => {
    if (select.value === OWN) {
      dialog.open();
      show(get());
    } else if (select.value !== AT) {
      change({ start: select.value, end: select.value && "now", at: "", more: [] });
    }
  });

  /**
   * @param {State} state
   */
  function show(state) {
    const preset = PRESETS.find(([value]) => value === state.start && state.end === (value && "now"));
    at.hidden = !state.at;
    select.value = state.at ? AT : (preset?.[0] ?? OWN);
  }
  return show;
}

/**
 * @param {() => State} get
 * @param {Change} change
 */
function makeDialog(get, change) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("range"));
  const start = make("input", { type: "datetime-local", id: "range-start" });
  const end = make("input", { type: "datetime-local", id: "range-end" });
  const problem = make("p", { class: "problem", role: "alert", hidden: true });
  const form = make(
    "form",
    {
      method: "dialog",
      submit: (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        const [from, until] = [seconds(start.value), seconds(end.value)];
        problem.hidden = !from || !until || Number(from) <= Number(until);
        problem.textContent = "The range ends before it starts.";
        if (!problem.hidden) return;
        dialog.close();
        change({ start: from, end: until, at: "", more: [] });
      },
    },
    make("h2", { id: "range-title" }, "Lineage of a range of time"),
    make("p", { class: "muted" }, "Runs that were active between the two times count. An empty time is no bound."),
    make("label", { for: "range-start" }, "From", start),
    make("label", { for: "range-end" }, "Until", end),
    problem,
    make(
      "div",
      { class: "buttons" },
      make("button", { type: "button", click: () => dialog.close() }, "Cancel"),
      make("button", { type: "submit", class: "main" }, "Apply"),
    ),
  );
  dialog.append(form);
  return {
    open() {
      start.value = local(get().start);
      end.value = local(get().end);
      problem.hidden = true;
      dialog.showModal();
    },
  };
}

/**
 * @param {string} text
 */
function seconds(text) {
  const time = new Date(text).getTime();
  return Number.isNaN(time) ? "" : String(Math.floor(time / 1000));
}

/**
 * Seconds as the input takes them; an expression such as now-7d leaves it empty.
 * @param {string} text
 */
function local(text) {
  if (!/^\d+$/.test(text)) return "";
  const time = new Date(Number(text) * 1000);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
