/** The edges: one SVG path for all of a kind, and the locked ones above them. */

import { styleOf } from "../data/model.js";
import { pathData } from "../layout/curves.js";
import { hitAt, targetsOf } from "../layout/hits.js";
import { makeSvg } from "../ui/dom.js";

/** @import {Path, Point} from "../data/types.js" */
/** @import {Target} from "../layout/hits.js" */
/** @import {Scene} from "./scene.js" */

/**
 * The lines of a graph, inside an SVG element.
 * @param {SVGSVGElement} svg
 */
export function keepLines(svg) {
  const base = makeSvg("g", { class: "base" });
  const top = makeSvg("g", { class: "top" });
  svg.append(base, top);
  /** @type {Target[] | null} */
  let targets = null;
  /** @type {Scene | null} */
  let drawn = null;
  return {
    /**
     * @param {Scene} scene
     */
    draw(scene) {
      [targets, drawn] = [null, scene];
      svg.setAttribute("width", String(Math.max(scene.width, 1)));
      svg.setAttribute("height", String(Math.max(scene.height, 1)));
      const lines = { sure: "", unsure: "", rows: "" };
      for (const { edge, line } of scene.lines.values()) lines[styleOf(edge)] += pathData(line);
      base.replaceChildren(...Object.entries(lines).map(([style, d]) => makeSvg("path", { class: `edge ${style}`, d })));
    },
    /**
     * Draw the edges of a path above the others.
     * @param {Scene} scene
     * @param {Path | null} path
     */
    mark(scene, path) {
      const marked = [...(path?.edges ?? [])].flatMap(([id, side]) => {
        const found = scene.lines.get(id);
        return found ? [makeSvg("path", { class: `edge ${styleOf(found.edge)} ${side}`, d: pathData(found.line) })] : [];
      });
      top.replaceChildren(...marked);
    },
    /**
     * The edge at a point of the world, within some reach.
     * @param {Point} point
     * @param {number} reach
     */
    at(point, reach) {
      targets ??= targetsOf([...(drawn?.lines ?? [])].map(([id, { line }]) => [id, line]));
      return hitAt(targets, point, reach);
    },
  };
}
