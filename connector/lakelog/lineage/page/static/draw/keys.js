/** Keys in the graph. It is one tab stop; inside, arrows go along edges. */

import { boxOf } from "../data/names.js";
import { edgesOf } from "../data/path.js";
import { endsBeside, moveFrom } from "./moves.js";
import { actionOf, centreOn } from "./pointer.js";

/** @import {Change, Graph, State} from "../data/types.js" */
/** @import {GraphView} from "./graph_view.js" */

/** @type {Record<string, 'left' | 'right' | 'up' | 'down'>} */
const SIDES = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

/**
 * @param {HTMLElement} host
 * @param {GraphView} view
 * @param {() => State} get
 * @param {() => Graph | null} graphOf
 * @param {Change} change
 * @param {(words: string) => void} announce
 */
export function listenToKeys(host, view, get, graphOf, change, announce) {
  /** The ends that the last step along an edge could have led to: Alt with up and down goes through them. */
  let beside = /** @type {string[]} */ ([]);

  host.addEventListener("keydown", (event) => {
    const graph = graphOf();
    const scene = view.scene();
    if (event.target !== host || graph === null || scene === null || event.ctrlKey || event.metaKey) return;
    const at = view.cursor();
    const side = SIDES[event.key];
    if (side) {
      if (event.altKey && (side === "up" || side === "down")) goTo(nextBeside(at, side));
      else if (event.shiftKey) pan(side);
      else {
        if (side === "left" || side === "right") beside = endsBeside(scene, graph, at, side);
        goTo(moveFrom(scene, graph, at, side));
      }
    } else if (!press(event.key, at, graph)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  /**
   * @param {string} key
   */
  function goTo(key) {
    if (key === view.cursor()) announce("No further edge here.");
    view.setCursor(key);
    view.reveal(key);
  }

  /**
   * @param {string} at
   * @param {'up' | 'down'} side
   */
  function nextBeside(at, side) {
    const next = beside.indexOf(at) + (side === "up" ? -1 : 1);
    return beside[(next + beside.length) % beside.length] ?? at;
  }

  /**
   * @param {'left' | 'right' | 'up' | 'down'} side
   */
  function pan(side) {
    const { x, y, k } = view.viewport.get();
    const by = { left: [80, 0], right: [-80, 0], up: [0, 80], down: [0, -80] }[side];
    view.viewport.set({ x: x + (by[0] ?? 0), y: y + (by[1] ?? 0), k }, true);
  }

  /**
   * @param {string} key
   * @param {string} at
   * @param {Graph} graph
   * @returns {boolean} Whether the key means something.
   */
  function press(key, at, graph) {
    const lock = `${at === boxOf(at) ? "dataset" : "field"}/${at}`;
    if (key === "Enter" || key === " ") change(lock === get().lock ? { lock: "" } : { lock, drawer: true });
    else if (key === "Escape" && get().lock) change({ lock: "" });
    else if (key === "e") openEdge(at, graph);
    else if (key === "c") change(centreOn(at));
    else if (key === "f") view.filterOf(boxOf(at))?.focus();
    else if (key === "x") change(actionOf("fold", boxOf(at), get()));
    else if (key === "a") change(actionOf(get().all.includes(boxOf(at)) ? "fewer" : "all", boxOf(at), get()));
    else if (key === "<" || key === ">") change(actionOf(key === "<" ? "more-up" : "more-down", boxOf(at), get()));
    else if (key === "+" || key === "=") view.viewport.zoom(1.25);
    else if (key === "-") view.viewport.zoom(0.8);
    else if (key === "0") view.fit();
    else return false;
    return true;
  }

  /**
   * Open what made a column: its first edge, and with each press the next.
   * @param {string} at
   * @param {Graph} graph
   */
  function openEdge(at, graph) {
    const edges = [...edgesOf(graph, at, "up"), ...edgesOf(graph, at, "down")];
    const opened = edges.findIndex((edge) => get().lock === `edge/${edge.id}`);
    const next = edges[(opened + 1) % Math.max(edges.length, 1)];
    if (next) change({ lock: `edge/${next.id}`, drawer: true });
    else announce("No edge ends here.");
  }
}

/** The keys of the page, for the list that `?` opens. */
export const KEYS = [
  ["/", "Search"],
  ["← →", "Along an edge, upstream or downstream"],
  ["↑ ↓", "The next row or box"],
  ["Alt ↑ ↓", "The other ends of the same column"],
  ["Enter", "Lock the path of a row or box; again to free it"],
  ["Esc", "Free the path"],
  ["e", "What made this column: its edges, one after the other"],
  ["c", "Centre on this column or dataset"],
  ["< >", "One hop further upstream or downstream of this dataset"],
  ["[ ]", "Fewer or more hops"],
  ["f", "Filter the columns of this dataset"],
  ["a", "All columns of this dataset, or those with lineage"],
  ["x", "Fold or unfold this dataset"],
  ["Shift arrows", "Move the picture"],
  ["+ − 0", "Zoom in, zoom out, fit; Ctrl and the wheel zoom too"],
  ["t", "Graph or table"],
  ["?", "This list"],
];
