/** What lies above the graph: the zoom buttons and the legend. */

import { iconButton, make, makeSvg } from "./dom.js";

/** @import {GraphView} from "../draw/graph_view.js" */

const LINES = [
  ["sure", "values flow"],
  ["unsure", "approximate"],
  ["rows", "decides about rows"],
];

/**
 * @param {HTMLElement} host
 * @param {GraphView} view
 */
export function makeOverlays(host, view) {
  const off = { tabindex: -1 }; // keys + - 0 do the same
  host.append(
    make(
      "div",
      { class: "over zoom" },
      iconButton("plus", "Zoom in", { ...off, click: () => view.viewport.zoom(1.25) }),
      iconButton("minus", "Zoom out", { ...off, click: () => view.viewport.zoom(0.8) }),
      iconButton("fit", "Fit", { ...off, click: () => view.fit() }),
    ),
    make(
      "ul",
      { class: "over legend", "aria-hidden": "true" },
      ...LINES.map(([style, words = ""]) => {
        const line = makeSvg("path", { class: `edge ${style}`, d: "M1 5H31" });
        return make("li", {}, makeSvg("svg", { viewBox: "0 0 32 10", width: 32, height: 10 }, line), words);
      }),
    ),
  );
}
