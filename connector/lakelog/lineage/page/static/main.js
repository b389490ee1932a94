/** The page: loads what the state asks for, and shows it in all views. */

import { askDataset, askGraphs, isAborted } from "./data/api.js";
import { takeEarly } from "./data/early.js";
import { makeGraph } from "./data/model.js";
import { pathOf } from "./data/path.js";
import { IS_SAVED } from "./data/saved.js";
import { isAskedAgain, keepState } from "./data/state.js";
import { keepGraphView } from "./draw/graph_view.js";
import { listenToKeys } from "./draw/keys.js";
import { listenToPointer } from "./draw/pointer.js";
import { makeScene } from "./draw/scene.js";
import { byId } from "./ui/dom.js";
import { makeOverlays } from "./ui/overlays.js";
import { drawnText, lockText } from "./ui/words.js";
import { keepDrawer } from "./views/drawer.js";
import { saveGraph } from "./views/export.js";
import { keepHelp, listenToPageKeys } from "./views/help.js";
import { keepList } from "./views/list.js";
import { keepSearch } from "./views/search.js";
import { keepTime } from "./views/time.js";
import { keepToolbar } from "./views/toolbar.js";
import { keepTree } from "./views/tree.js";

/** @import {Shown, State} from "./data/types.js" */

/** @type {Shown} */
let shown = { state: /** @type {State} */ ({}), graph: null, path: null, columns: new Map(), isLoading: false, error: "" };
let asked = new AbortController();
const { get, change } = keepState(onChange, refuse);
document.documentElement.classList.toggle("saved", IS_SAVED);
const host = byId("graph");
const view = keepGraphView(host, change);
const search = keepSearch(get, change, announce);
const showTime = keepTime(get, change);
const showToolbar = keepToolbar(get, change, exportAs);
const showDrawer = keepDrawer(get, change);
const showTree = keepTree(get, change);
const showList = keepList(change, announce);
const help = keepHelp();
makeOverlays(host, view);
listenToPointer(host, view, get, change);
listenToKeys(host, view, get, () => shown.graph, change, announce);
listenToPageKeys(get, change, search.focus, help);
onChange(get(), null);

/**
 * @param {State} state
 * @param {State | null} before
 */
function onChange(state, before) {
  const isAsked = before === null || isAskedAgain(before, state);
  const isLocked = before !== null && before.lock !== state.lock;
  shown = { ...shown, state, error: IS_SAVED ? "" : shown.error };
  if (isAsked) void load(state);
  else void loadColumns(state);
  show();
  if (isLocked && !isAsked) announce(lockText(state.lock, shown.path));
}

/** A page in a file has one graph. */
function refuse() {
  shown = { ...shown, error: "This file has one graph. `lakelog lineage serve` shows others." };
  show();
}

/**
 * Ask for the graph of a state, and show it unless another was asked for meanwhile.
 * @param {State} state
 */
async function load(state) {
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  if (!state.dataset) {
    shown = { ...shown, graph: null, isLoading: false, error: "" };
    show();
    return;
  }
  shown = { ...shown, isLoading: true, error: "" };
  try {
    const graph = makeGraph(await (takeEarly(state) ?? askGraphs(state, signal)));
    await loadColumns(state);
    shown = { ...shown, graph, isLoading: false };
    show();
    requestAnimationFrame(() => setTimeout(() => performance.mark("lineage-drawn")));
    announce(drawnText(graph, state));
  } catch (error) {
    if (isAborted(error)) return;
    shown = { ...shown, graph: null, isLoading: false, error: error instanceof Error ? error.message : String(error) };
    show();
  }
}

/**
 * The columns of boxes that show all of them, once each.
 * @param {State} state
 */
async function loadColumns(state) {
  const missing = state.all.filter((key) => !shown.columns.has(key));
  if (missing.length === 0) return;
  try {
    const found = await Promise.all(missing.map((key) => askDataset(key, state, null)));
    const columns = new Map(shown.columns);
    found.forEach(({ fields }, at) => columns.set(missing[at] ?? "", fields));
    shown = { ...shown, columns };
    show();
  } catch (error) {
    announce(error instanceof Error ? error.message : String(error));
  }
}

function show() {
  const { state, graph } = shown;
  shown.path = graph && pathOf(graph, state.lock, state.direction);
  const isDrawn = graph !== null && !graph.tooMany;
  host.hidden = !isDrawn || state.view !== "graph";
  byId("tree").hidden = !isDrawn || state.view !== "tree";
  byId("list").hidden = state.dataset !== "" && !graph?.tooMany;
  byId("main").classList.toggle("loading", shown.isLoading);
  byId("problem").hidden = shown.error === "";
  byId("problem").textContent = shown.error;
  document.title = state.dataset ? `${state.dataset} – lineage` : "Lineage – lakelog";
  showToolbar(shown);
  showTime(state);
  search.update(state);
  showDrawer(shown);
  showList(shown);
  view.update(shown);
  showTree(shown);
}

/**
 * Say something to those who do not see the page.
 * @param {string} words
 */
function announce(words) {
  byId("live").textContent = words;
}

/**
 * @param {string} format
 */
function exportAs(format) {
  if (shown.graph) saveGraph(shown.graph, makeScene(shown, shown.graph, view.scene()), shown.path, format);
}
