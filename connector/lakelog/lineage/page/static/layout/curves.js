/** The line of each edge, as the data of an SVG path. */

/** @import {Point} from "../data/types.js" */

const BEND_MIN = 36;
const LOOP = 30;

/**
 * A line from the right end of one row to the left end of another, by the lanes between them.
 * @param {Point} from
 * @param {Point} to
 * @param {Point[]} lanes
 * @param {number} width The width of a box, along which a lane is level.
 */
export function curve(from, to, lanes, width) {
  let path = `M${from.x} ${from.y}`;
  let at = from;
  for (const lane of lanes) {
    path += bend(at, lane) + `H${lane.x + width}`;
    at = { x: lane.x + width, y: lane.y };
  }
  return path + bend(at, to);
}

/**
 * @param {Point} from
 * @param {Point} to
 */
function bend(from, to) {
  const reach = Math.max(BEND_MIN, (to.x - from.x) / 2);
  return `C${from.x + reach} ${from.y} ${to.x - reach} ${to.y} ${to.x} ${to.y}`;
}

/**
 * A line against the direction: out to the right, below both boxes, and in from the left.
 * @param {Point} from
 * @param {Point} to
 * @param {number} bottom
 */
export function backCurve(from, to, bottom) {
  const low = bottom + LOOP;
  const right = from.x + 2 * LOOP;
  const left = to.x - 2 * LOOP;
  return (
    `M${from.x} ${from.y}C${right} ${from.y} ${right} ${low} ${from.x} ${low}` +
    `L${to.x} ${low}C${left} ${low} ${left} ${to.y} ${to.x} ${to.y}`
  );
}

/**
 * A line between two rows of one box, at its left side.
 * @param {Point} from
 * @param {Point} to
 */
export function loopCurve(from, to) {
  const reach = from.x - LOOP;
  const down = from.y === to.y ? LOOP / 2 : 0;
  return `M${from.x} ${from.y - down}C${reach} ${from.y - down} ${reach} ${to.y + down} ${to.x} ${to.y}`;
}
