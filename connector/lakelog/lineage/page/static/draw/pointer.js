/** The pointer in the graph: a click locks, a hover shows, and the buttons of boxes unfold. */

import { boxOf, join, split } from "../data/names.js";
import { PAGE, PAGE_MORE } from "../data/rows.js";
import { centred } from "../data/state.js";

/** @import {Change, State} from "../data/types.js" */
/** @import {GraphView} from "./graph_view.js" */

/**
 * @param {HTMLElement} host
 * @param {GraphView} view
 * @param {() => State} get
 * @param {Change} change
 */
export function listenToPointer(host, view, get, change) {
  host.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("input, .over")) return;
    const button = target.closest("[data-action]");
    const box = target.closest(".box");
    if (button instanceof HTMLElement && box instanceof HTMLElement) {
      change(actionOf(button.dataset["action"] ?? "", box.dataset["key"] ?? "", get()));
      return;
    }
    const lock = view.lockAt(event);
    const isFree = lock === "" || lock === get().lock;
    if (!isFree || get().lock) change(isFree ? { lock: "" } : { lock, drawer: true });
    if (lock && !lock.startsWith("edge/")) view.setCursor(lock.slice(lock.indexOf("/") + 1));
  });

  host.addEventListener("dblclick", (event) => {
    const head = /** @type {Element} */ (event.target).closest(".head, .far")?.closest(".box");
    if (head instanceof HTMLElement) change(actionOf("centre", head.dataset["key"] ?? "", get()));
  });

  host.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse" && event.buttons === 0) view.hover(view.lockAt(event));
  });
  host.addEventListener("pointerleave", () => view.hover(""));

  host.addEventListener("input", (event) => {
    const input = event.target;
    const key = input instanceof HTMLInputElement ? input.dataset["filter"] : undefined;
    if (key === undefined || !(input instanceof HTMLInputElement)) return;
    const { [key]: _, ...others } = get().filter;
    change({ filter: input.value ? { ...others, [key]: input.value } : others }, "replace");
  });
}

/**
 * What a button of a box, or its key, changes.
 * @param {string} action
 * @param {string} key
 * @param {State} state
 * @returns {Partial<State>}
 */
export function actionOf(action, key, state) {
  const [ns = "", dataset = ""] = split(key);
  if (action === "centre") return centred(ns, dataset);
  if (action === "fold") return { closed: toggled(state.closed, key) };
  if (action === "all") return { all: [...state.all, key] };
  if (action === "fewer") return { all: state.all.filter((one) => one !== key) };
  if (action === "rows") {
    const drawn = Number(state.rows[key] ?? PAGE);
    return { rows: { ...state.rows, [key]: String(drawn + PAGE_MORE) } };
  }
  const side = action === "more-up" ? "up" : "down";
  return { more: [...new Set([...state.more, join(ns, dataset, side)])] };
}

/**
 * What centres on what a lock or the cursor names: on a column, its lineage alone is drawn.
 * @param {string} key
 * @returns {Partial<State>}
 */
export function centreOn(key) {
  const [ns = "", dataset = "", field = ""] = split(key);
  return key === boxOf(key) ? centred(ns, dataset) : centred(ns, dataset, field);
}

/**
 * @param {string[]} list
 * @param {string} one
 */
function toggled(list, one) {
  return list.includes(one) ? list.filter((other) => other !== one) : [...list, one];
}
