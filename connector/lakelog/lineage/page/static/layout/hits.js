/** Which edge is at a point. The browser's own test of a thousand curves takes longer than a frame. */

import { pointsOf } from "./curves.js";

/** @import {Point} from "../data/types.js" */
/** @import {Line} from "./curves.js" */

/**
 * @typedef {{id: string, points: Point[], left: number, right: number, top: number, bottom: number}} Target
 */

/**
 * The lines as points, each with the rectangle that holds them.
 * @param {Iterable<[string, Line]>} lines
 * @returns {Target[]}
 */
export function targetsOf(lines) {
  return [...lines].map(([id, line]) => {
    const points = pointsOf(line);
    const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
    return { id, points, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
  });
}

/**
 * The nearest line within reach of a point; an empty string where there is none.
 * @param {Target[]} targets
 * @param {Point} at
 * @param {number} reach
 */
export function hitAt(targets, { x, y }, reach) {
  let found = "";
  let nearest = reach;
  for (const { id, points, left, right, top, bottom } of targets) {
    if (x < left - reach || x > right + reach || y < top - reach || y > bottom + reach) continue;
    for (let at = 1; at < points.length; at++) {
      const away = distance({ x, y }, /** @type {Point} */ (points[at - 1]), /** @type {Point} */ (points[at]));
      if (away < nearest) [nearest, found] = [away, id];
    }
  }
  return found;
}

/**
 * How far a point is from a piece of a straight line.
 * @param {Point} point
 * @param {Point} from
 * @param {Point} to
 */
function distance(point, from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = dx * dx + dy * dy;
  const share = length === 0 ? 0 : ((point.x - from.x) * dx + (point.y - from.y) * dy) / length;
  const t = Math.min(Math.max(share, 0), 1);
  return Math.hypot(point.x - from.x - t * dx, point.y - from.y - t * dy);
}
