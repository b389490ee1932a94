/** The list of keys, and the keys that work anywhere on the page. */

import { KEYS } from "../draw/keys.js";
import { byId, make } from "../ui/dom.js";
import { step } from "./toolbar.js";

/** @import {Change, State} from "../data/types.js" */

export function keepHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("help"));
  const items = KEYS.flatMap(([keys = "", words = ""]) => [
    make("dt", {}, ...keys.split(" ").map((key) => make("kbd", {}, key))),
    make("dd", {}, words),
  ]);
  dialog.append(
    make("h2", { id: "help-title" }, "Keys"),
    make("dl", { class: "keys" }, ...items),
    make("div", { class: "buttons" }, make("button", { type: "button", class: "main", click: () => dialog.close() }, "Close")),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  const open = () => dialog.showModal();
  byId("keys").addEventListener("click", open);
  return open;
}

/**
 * @param {() => State} get
 * @param {Change} change
 * @param {() => void} search
 * @param {() => void} help
 */
export function listenToPageKeys(get, change, search, help) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input:not([type=radio]), select, textarea, dialog") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping) {
      if (event.key === "Escape" && target.closest(".filter")) byId("graph").focus({ preventScroll: true });
      return;
    }
    if (event.key === "/") search();
    else if (event.key === "?") help();
    else if (event.key === "t") change({ view: get().view === "tree" ? "graph" : "tree" });
    else if (event.key === "[") step(get, change, -1);
    else if (event.key === "]") step(get, change, 1);
    else if (event.key === "Escape" && get().lock) change({ lock: "" });
    else return;
    event.preventDefault();
  });
}
