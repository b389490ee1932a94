/** Search over datasets and columns: a combobox whose list is filled by the server. */

import { askSearch, isAborted } from "../data/api.js";
import { oneLine } from "../data/names.js";
import { centred } from "../data/state.js";
import { afterQuiet, byId, make } from "../ui/dom.js";
import { count } from "../ui/words.js";

/** @import {Change, Found, State} from "../data/types.js" */

const LISTED = 50;

/**
 * @param {() => State} get
 * @param {Change} change
 * @param {(words: string) => void} announce
 */
export function keepSearch(get, change, announce) {
  const input = /** @type {HTMLInputElement} */ (byId("search"));
  const list = byId("found");
  const results = byId("results");
  const note = byId("found-note");
  /** @type {Found[]} */
  let found = [];
  let chosen = -1;
  let asked = new AbortController();

  async function ask() {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      const answer = await askSearch(input.value.trim(), LISTED, 0, signal);
      found = answer.results;
      show(answer.total);
    } catch (error) {
      if (isAborted(error)) return;
      found = [];
      show(0, error instanceof Error ? error.message : String(error));
    }
  }

  /**
   * @param {number} total
   * @param {string} [problem]
   */
  function show(total, problem) {
    choose(-1);
    list.replaceChildren(...found.map(makeResult));
    const words = total === 0 ? "Nothing has this in its name." : count(total, "result");
    note.textContent = problem ?? (total > found.length ? `The first ${found.length} of ${words}.` : words);
    open(true);
    announce(note.textContent);
  }

  /**
   * @param {boolean} isOpen
   */
  function open(isOpen) {
    results.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen && found.length > 0));
    if (!isOpen) choose(-1);
  }

  /**
   * @param {number} at
   */
  function choose(at) {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = at;
    const option = list.children[chosen];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  }

  /**
   * @param {Found | undefined} one
   */
  function take(one) {
    if (one === undefined) return;
    asked.abort();
    open(false);
    input.value = "";
    change(centred(one.ns, one.dataset, one.field ?? ""));
    byId(get().view === "tree" ? "tree" : "graph").focus({ preventScroll: true });
  }

  const askSoon = afterQuiet(ask, 120);
  input.addEventListener("input", () => {
    change({ q: input.value }, "replace");
    askSoon();
  });
  input.addEventListener("focus", () => void ask());
  input.addEventListener("blur", () => open(false));
  results.addEventListener("pointerdown", (event) => event.preventDefault()); // the input keeps the focus
  list.addEventListener("click", (event) => {
    const option = /** @type {Element} */ (event.target).closest("[role=option]");
    if (option) take(found[[...list.children].indexOf(option)]);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (results.hidden) input.value = "";
      change({ q: input.value }, "replace");
      open(false);
    } else if (event.key === "Enter") {
      take(found[Math.max(chosen, 0)]);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (results.hidden) open(true);
      else choose((chosen + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(found.length, 1));
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    /** @param {State} state */
    update(state) {
      if (document.activeElement !== input && input.value !== state.q) input.value = state.q;
    },
    focus() {
      input.focus();
      input.select();
    },
  };
}

/**
 * @param {Found} one
 * @param {number} at
 */
function makeResult(one, at) {
  const name = one.field ?? one.dataset;
  const under = one.field === null ? one.ns : `${one.dataset} · ${one.ns}`;
  const notes = [one.type?.toLowerCase(), one.foreign && "external", !one.hasLineage && "no lineage"].filter(Boolean);
  return make(
    "li",
    { id: `found-${at}`, role: "option", "aria-selected": "false", class: one.field === null ? "is-dataset" : "is-field" },
    make("span", { class: "sign", "aria-hidden": "true" }),
    make("span", { class: "name", title: name }, oneLine(name)),
    make("span", { class: "under" }, oneLine(under)),
    make("span", { class: "note" }, notes.join(", ")),
  );
}
