/** The line of each edge: bends and level pieces, as the data of an SVG path and as points to be hit. */

/** @import {Point} from "../data/types.js" */

/** A start and pieces that each begin where the last one ends: a bend with two controls, or a straight line. */
/** @typedef {{start: Point, pieces: {controls: [Point, Point] | null, end: Point}[]}} Line */

const BEND_MIN = 36;
const LOOP = 30;
const STEPS = 10;
/** How far below its box a line that leads back passes: the middle of the gap. */
export const BELOW = 12;

/**
 * A line from the right end of one row to the left end of another, by the lanes between them.
 * @param {Point} from
 * @param {Point} to
 * @param {Point[]} lanes
 * @param {number} width The width of a box, along which a lane is level.
 * @returns {Line}
 */
export function curve(from, to, lanes, width) {
  const line = { start: from, pieces: /** @type {Line["pieces"]} */ ([]) };
  let at = from;
  for (const lane of lanes) {
    line.pieces.push(bend(at, lane, BEND_MIN), level({ x: lane.x + width, y: lane.y }));
    at = { x: lane.x + width, y: lane.y };
  }
  line.pieces.push(bend(at, to, BEND_MIN));
  return line;
}

/**
 * A line against the direction: out to the right, below its box, by the lanes between, below the other box, and in.
 * @param {{at: Point, bottom: number}} from The right end of a row, and the bottom of its box.
 * @param {{at: Point, bottom: number}} to The left end of a row, and the bottom of its box.
 * @param {Point[]} lanes From left to right.
 * @param {number} width
 * @returns {Line}
 */
export function backCurve(from, to, lanes, width) {
  const low = { x: from.at.x, y: from.bottom + BELOW };
  let at = { x: from.at.x - width, y: low.y };
  const pieces = [loop(from.at, low, from.at.x + LOOP), level(at)];
  for (const lane of [...lanes].reverse()) {
    pieces.push(bend(at, { x: lane.x + width, y: lane.y }, 0), level(lane));
    at = lane;
  }
  const below = { x: to.at.x, y: to.bottom + BELOW };
  pieces.push(bend(at, { x: to.at.x + width, y: below.y }, 0), level(below), loop(below, to.at, to.at.x - LOOP));
  return { start: from.at, pieces };
}

/**
 * A line between two rows of one box, at its left side.
 * @param {Point} from
 * @param {Point} to
 * @returns {Line}
 */
export function loopCurve(from, to) {
  const apart = from.y === to.y ? LOOP / 2 : 0;
  const start = { x: from.x, y: from.y - apart };
  return { start, pieces: [loop(start, to, from.x - LOOP)] };
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {number} least How far the line is level at both ends.
 * @returns {Line["pieces"][0]}
 */
function bend(from, to, least) {
  const reach = Math.sign(to.x - from.x || 1) * Math.max(least, Math.abs(to.x - from.x) / 2);
  return { controls: [{ x: from.x + reach, y: from.y }, { x: to.x - reach, y: to.y }], end: to };
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {number} x How far it reaches to one side.
 * @returns {Line["pieces"][0]}
 */
function loop(from, to, x) {
  return { controls: [{ x, y: from.y }, { x, y: to.y }], end: to };
}

/**
 * @param {Point} end
 * @returns {Line["pieces"][0]}
 */
function level(end) {
  return { controls: null, end };
}

/**
 * The data of an SVG path.
 * @param {Line} line
 */
export function pathData({ start, pieces }) {
  const parts = pieces.map(({ controls, end }) => {
    if (controls === null) return `L${end.x} ${end.y}`;
    return `C${controls[0].x} ${controls[0].y} ${controls[1].x} ${controls[1].y} ${end.x} ${end.y}`;
  });
  return `M${start.x} ${start.y}${parts.join("")}`;
}

/**
 * Points along the line, each bend in equal steps.
 * @param {Line} line
 * @returns {Point[]}
 */
export function pointsOf({ start, pieces }) {
  const points = [start];
  let from = start;
  for (const { controls, end } of pieces) {
    for (let step = 1; step < STEPS && controls !== null; step++) points.push(onBend(from, controls, end, step / STEPS));
    points.push(end);
    from = end;
  }
  return points;
}

/**
 * @param {Point} from
 * @param {[Point, Point]} controls
 * @param {Point} to
 * @param {number} t
 */
function onBend(from, [one, other], to, t) {
  const [a, b, c, d] = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t ** 2, t ** 3];
  return { x: a * from.x + b * one.x + c * other.x + d * to.x, y: a * from.y + b * one.y + c * other.y + d * to.y };
}
