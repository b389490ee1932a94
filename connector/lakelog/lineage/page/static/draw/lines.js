/** The edges: one SVG path for all of a kind, a wide unseen line for each to be hit, and the locked ones on top. */

import { styleOf } from "../data/model.js";
import { makeSvg } from "../ui/dom.js";

/** @import {Path} from "../data/types.js" */
/** @import {Scene} from "./scene.js" */

/**
 * The lines of a graph, inside an SVG element.
 * @param {SVGSVGElement} svg
 */
export function keepLines(svg) {
  const base = makeSvg("g", { class: "base" });
  const hits = makeSvg("g", { class: "hits" });
  const top = makeSvg("g", { class: "top" });
  svg.append(base, hits, top);
  return {
    /**
     * @param {Scene} scene
     */
    draw(scene) {
      svg.setAttribute("width", String(Math.max(scene.width, 1)));
      svg.setAttribute("height", String(Math.max(scene.height, 1)));
      const lines = { sure: "", unsure: "", rows: "" };
      for (const { edge, line } of scene.lines.values()) lines[styleOf(edge)] += line;
      base.replaceChildren(...Object.entries(lines).map(([style, d]) => makeSvg("path", { class: `edge ${style}`, d })));
      hits.replaceChildren(
        ...[...scene.lines].map(([id, { line }]) => makeSvg("path", { class: "hit", d: line, "data-edge": id })),
      );
    },
    /**
     * Draw the edges of a path above the others.
     * @param {Scene} scene
     * @param {Path | null} path
     */
    mark(scene, path) {
      const marked = [...(path?.edges ?? [])].flatMap(([id, side]) => {
        const found = scene.lines.get(id);
        return found ? [makeSvg("path", { class: `edge ${styleOf(found.edge)} ${side}`, d: found.line })] : [];
      });
      top.replaceChildren(...marked);
    },
  };
}
