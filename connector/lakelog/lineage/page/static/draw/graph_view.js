/** The drawn graph: boxes and edges in a world that is panned and zoomed. Rows are made for boxes in view alone. */

import { boxOf, parseLock } from "../data/names.js";
import { pathOf } from "../data/path.js";
import { SIZES } from "../data/rows.js";
import { afterQuiet, make, makeSvg } from "../ui/dom.js";
import { emptyBox, fillBox, makeBox } from "./box.js";
import { keepLines } from "./lines.js";
import { makeScene, rectangleOf } from "./scene.js";
import { keepViewport } from "./viewport.js";

/** @import {Change, Graph, Path, Place, Shown} from "../data/types.js" */
/** @import {Scene} from "./scene.js" */

const FILLED_PER_FRAME = 8;
const FILLED_MAX = 90;
/** How far out of view, on the screen, a box has rows already. */
const AROUND = 120;
/** How near to an edge the pointer hits it, on the screen. */
const REACH = 7;
/** Below these scales rows are left out, and names grow to stay readable. */
const FAR = [0.42, 0.28, 0.17, 0.1];

/** @typedef {ReturnType<typeof keepGraphView>} GraphView */

/**
 * @param {HTMLElement} host
 * @param {Change} change
 */
export function keepGraphView(host, change) {
  const svg = makeSvg("svg", { class: "edges", "aria-hidden": "true" });
  const layer = make("div", { class: "boxes" });
  const world = make("div", { class: "world" }, svg, layer);
  host.prepend(world);
  const lines = keepLines(svg);
  /** @type {Map<string, HTMLElement>} */
  const elements = new Map();
  /** @type {Set<string>} */
  const filled = new Set();
  /** @type {Scene | null} */
  let scene = null;
  /** @type {Shown | null} */
  let shown = null;
  /** @type {Graph | null} */
  let graph = null;
  let cursor = "";
  let hovered = "";
  let frame = 0;
  let far = 0;

  const keepPlace = afterQuiet((/** @type {Place} */ place) => change({ place }, "replace"), 250);
  const viewport = keepViewport(host, world, (place, isByHand) => {
    const next = FAR.filter((scale) => place.k < scale).length;
    if (next !== far) world.dataset["far"] = String((far = next));
    if (isByHand) keepPlace(place);
    frame ||= requestAnimationFrame(fillVisible);
  });

  /**
   * @param {Shown} now
   */
  function update(now) {
    const before = shown;
    shown = now;
    if (now.graph === null || now.graph.tooMany || now.state.view !== "graph") return;
    const anchor = scene === null ? null : rectangleOf(scene, boxOf(parseLock(now.state.lock)?.key ?? now.graph.root));
    const isOther = graph?.root !== now.graph.root;
    const isNew = graph !== now.graph;
    graph = now.graph;
    const next = makeScene(now, graph, scene);
    if (next !== scene) {
      scene = next;
      draw(now);
    }
    mark();
    // The host has its size once the views are switched: the place is set in the same task, after it.
    const wasDrawn = before?.state.view === "graph" && before.graph !== null && !before.graph.tooMany;
    if (now.state.place !== null && (before?.state.place !== now.state.place || !wasDrawn)) viewport.set(now.state.place);
    else if (now.state.place === null && (isNew || !wasDrawn)) viewport.fitLegibly(scene, rectangleOf(scene, graph.root));
    else if (anchor !== null && !isOther) hold(anchor, boxOf(parseLock(now.state.lock)?.key ?? graph.root));
    if (before !== null && before.state.lock !== now.state.lock && now.path !== null) revealLock(now.state.lock);
    setCursor(scene.boxes.get(boxOf(cursor))?.ports.has(cursor) ? cursor : graph.root);
  }

  /**
   * What was locked stays in view beside the drawer that opened for it.
   * @param {string} lock
   */
  function revealLock(lock) {
    const locked = parseLock(lock);
    const rectangle = scene && locked && locked.kind !== "edge" ? rectangleOf(scene, locked.key) : null;
    if (rectangle) viewport.reveal(rectangle);
  }

  /**
   * After a new layout, a box is where it was on the screen.
   * @param {{x: number, y: number}} before
   * @param {string} key
   */
  function hold(before, key) {
    const after = scene && rectangleOf(scene, key);
    const { x, y, k } = viewport.get();
    if (!after || (after.x === before.x && after.y === before.y)) return;
    viewport.set({ x: x + (before.x - after.x) * k, y: y + (before.y - after.y) * k, k }, true);
  }

  /**
   * @param {Shown} now
   */
  function draw({ state }) {
    const of = /** @type {Scene} */ (scene);
    const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement : null;
    const [filter, caret] = [focused?.dataset["filter"], focused?.selectionStart ?? 0];
    elements.clear();
    filled.clear();
    let at = 0;
    for (const [key, placed] of of.boxes) elements.set(key, makeBox(placed, `box-${at++}`, key === graph?.root));
    layer.replaceChildren(...elements.values());
    lines.draw(of);
    hovered = "";
    if (filter !== undefined) {
      fill(filter);
      const again = layer.querySelector(`input[data-filter="${CSS.escape(filter)}"]`);
      if (again instanceof HTMLInputElement) {
        again.focus({ preventScroll: true });
        again.setSelectionRange(caret, caret);
      }
    }
    if (state.lock) fill(boxOf(parseLock(state.lock)?.key ?? ""));
    frame ||= requestAnimationFrame(fillVisible);
  }

  /** The boxes in view that have no rows yet, a few a frame. */
  function fillVisible() {
    frame = 0;
    if (scene === null || far > 0) return;
    let left = FILLED_PER_FRAME;
    for (const key of scene.boxes.keys()) {
      if (filled.has(key) || !isInView(key)) continue;
      if (left-- === 0) {
        frame = requestAnimationFrame(fillVisible);
        return;
      }
      fill(key);
    }
    if (filled.size <= FILLED_MAX) return;
    for (const key of [...filled].filter((one) => one !== boxOf(cursor) && !isInView(one))) {
      filled.delete(key);
      const element = elements.get(key);
      if (element) emptyBox(element);
    }
  }

  /**
   * @param {string} key
   */
  function isInView(key) {
    const placed = scene?.boxes.get(key);
    if (placed === undefined) return false;
    const { x, y, k } = viewport.get();
    const { width, height } = viewport.size();
    const [left, top] = [x + placed.x * k, y + placed.y * k];
    const [right, bottom] = [left + SIZES.width * k, top + placed.rows.height * k];
    return left < width + AROUND && top < height + AROUND && right > -AROUND && bottom > -AROUND;
  }

  /**
   * @param {string} key
   */
  function fill(key) {
    const element = elements.get(key);
    const placed = scene?.boxes.get(key);
    if (filled.has(key) || !element || !placed || !scene || !graph || !shown) return;
    filled.add(key);
    fillBox(element, placed, scene, graph, shown.state);
    markBox(element, path());
  }

  /** @returns {Path | null} What is locked, else what is under the pointer. */
  function path() {
    if (shown?.path) return shown.path;
    return graph && hovered ? pathOf(graph, hovered, shown?.state.direction ?? "both") : null;
  }

  function mark() {
    if (scene === null) return;
    const of = path();
    host.classList.toggle("locked", Boolean(shown?.path));
    host.classList.toggle("hovered", !shown?.path && of !== null);
    lines.mark(scene, of);
    for (const element of elements.values()) markBox(element, of);
  }

  /**
   * @param {HTMLElement} element
   * @param {Path | null} of
   */
  function markBox(element, of) {
    const key = element.dataset["key"] ?? "";
    setSide(element, of?.boxes.has(key) ? (of.ends.get(key) ?? "on") : "");
    for (const row of element.querySelectorAll(".row")) {
      if (row instanceof HTMLElement) setSide(row, of?.ends.get(row.dataset["key"] ?? "") ?? "");
    }
  }

  /**
   * @param {string} lock
   */
  function hover(lock) {
    if (lock === hovered) return;
    hovered = lock;
    host.classList.toggle("on-edge", lock.startsWith("edge/"));
    if (!shown?.path) mark();
  }

  /**
   * @param {string} key
   */
  function setCursor(key) {
    document.getElementById(host.getAttribute("aria-activedescendant") ?? "")?.classList.remove("cursor");
    cursor = key;
    fill(boxOf(key));
    const box = elements.get(boxOf(key));
    const element = key === boxOf(key) ? box : box?.querySelector(`.row[data-key="${CSS.escape(key)}"]`);
    element?.classList.add("cursor");
    if (element) host.setAttribute("aria-activedescendant", element.id);
  }

  return {
    update,
    hover,
    viewport,
    setCursor,
    cursor: () => cursor,
    /**
     * What a click or a hover at a place means, as a lock; an empty one where it means none.
     * @param {MouseEvent} event
     */
    lockAt(event) {
      const lock = lockOf(event.target);
      if (lock || (event.target instanceof Element && event.target.closest(".box, .over"))) return lock;
      const { left, top } = host.getBoundingClientRect();
      const { x, y, k } = viewport.get();
      const edge = lines.at({ x: (event.clientX - left - x) / k, y: (event.clientY - top - y) / k }, REACH / k);
      return edge && `edge/${edge}`;
    },
    scene: () => scene,
    fit() {
      if (scene) viewport.fit(scene, true);
    },
    /** @param {string} key */
    reveal(key) {
      const rectangle = scene && rectangleOf(scene, key);
      if (rectangle) viewport.reveal(rectangle);
    },
    /** @param {string} key @returns {HTMLInputElement | null} */
    filterOf(key) {
      fill(key);
      return layer.querySelector(`input[data-filter="${CSS.escape(key)}"]`);
    },
  };
}

/**
 * @param {HTMLElement} element
 * @param {string} side
 */
function setSide(element, side) {
  if (side) element.dataset["side"] = side;
  else delete element.dataset["side"];
}

/**
 * The lock of the row or box of an element.
 * @param {EventTarget | null} target
 */
function lockOf(target) {
  if (!(target instanceof Element)) return "";
  const row = target.closest(".row");
  if (row instanceof HTMLElement) return `field/${row.dataset["key"]}`;
  const head = target.closest(".head, .far")?.closest(".box");
  return head instanceof HTMLElement ? `dataset/${head.dataset["key"]}` : "";
}

