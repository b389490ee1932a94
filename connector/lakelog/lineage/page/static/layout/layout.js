/** Where each box lies, and the lanes in which long edges pass between boxes. */

import { BELOW } from "./curves.js";
import { groupBy, layersOf } from "./layers.js";
import { orderLayers } from "./order.js";
import { settleLayers } from "./settle.js";

/** @import {Point} from "../data/types.js" */
/** @import {Pair} from "./layers.js" */
/** @import {Node} from "./order.js" */

/**
 * @typedef {{key: string, height: number, hop: number}} Item
 * An edge between two boxes, with where it ends at both, from their tops.
 * @typedef {{source: string, target: string, sourcePort: number, targetPort: number}} Link
 * `lanes` has, for `source target` of a long edge, the left ends of its level pieces, from left to right.
 * @typedef {{at: Map<string, Point>, lanes: Map<string, Point[]>, width: number, height: number}} Layout
 */

const LANE_HEIGHT = 8;
const GAP = 72;
const GAP_PER_EDGE = 0.6;
const GAP_MAX = 200;

/**
 * Lay out boxes of one width. A link that closes a cycle leads back; one of a box to itself takes no part.
 * @param {Item[]} items
 * @param {Link[]} links
 * @param {number} width
 * @returns {Layout}
 */
export function layOut(items, links, width) {
  const pairs = pairsOf(links);
  const { layers, turned } = layersOf(new Map(items.map((item) => [item.key, item.hop])), pairs);
  const nodes = new Map(items.map((item) => [item.key, makeNode(item.key, layers.get(item.key) ?? 0, item.height)]));
  const lanes = new Map();
  for (const pair of pairs) {
    lanes.set(laneKey(pair.source, pair.target), joinPair(nodes, turned.has(pair) ? turn(pair, nodes) : pair));
  }
  const all = [...nodes.values(), ...[...lanes.values()].flat()];
  const columns = columnsOf(all);
  orderLayers(columns);
  settleLayers(columns);
  const lefts = leftsOf(columns, pairs, layers, width);
  const placed = (/** @type {Node} */ node) => ({ x: lefts[node.layer] ?? 0, y: Math.round(node.y) });
  return {
    at: new Map([...nodes].map(([key, node]) => [key, placed(node)])),
    lanes: new Map([...lanes].filter(([, passed]) => passed.length > 0).map(([key, passed]) => [key, passed.map(middle)])),
    width: (lefts.at(-1) ?? 0) + width,
    height: Math.max(0, ...all.map((node) => node.y + node.height)),
  };

  /**
   * @param {Node} node
   */
  function middle(node) {
    return { x: lefts[node.layer] ?? 0, y: Math.round(node.y + LANE_HEIGHT / 2) };
  }
}

/**
 * The key of the lanes between two boxes.
 * @param {string} source
 * @param {string} target
 */
export function laneKey(source, target) {
  return `${source} ${target}`;
}

/**
 * One pair for all links between two boxes, with their mean ends.
 * @param {Link[]} links
 * @returns {Pair[]}
 */
function pairsOf(links) {
  const apart = links.filter((link) => link.source !== link.target);
  return [...groupBy(apart, (link) => laneKey(link.source, link.target)).values()].map((group) => {
    const { source, target } = /** @type {Link} */ (group[0]);
    const mean = (/** @type {'sourcePort' | 'targetPort'} */ name) =>
      group.reduce((sum, link) => sum + link[name], 0) / group.length;
    return { source, target, sourcePort: mean("sourcePort"), targetPort: mean("targetPort"), weight: group.length };
  });
}

/**
 * @param {string} key
 * @param {number} layer
 * @param {number} height
 * @returns {Node}
 */
function makeNode(key, layer, height) {
  return { key, layer, height, isLane: false, rank: 0, y: 0, before: [], after: [] };
}

/**
 * A pair that leads back passes below both of its boxes.
 * @param {Pair} pair
 * @param {Map<string, Node>} nodes
 * @returns {Pair}
 */
function turn({ source, target, weight }, nodes) {
  const below = (/** @type {string} */ key) => (nodes.get(key)?.height ?? 0) + BELOW;
  return { source: target, target: source, sourcePort: below(target), targetPort: below(source), weight };
}

/**
 * Join two boxes, by a lane in each layer between them.
 * @param {Map<string, Node>} nodes
 * @param {Pair} pair
 * @returns {Node[]}
 */
function joinPair(nodes, pair) {
  const first = /** @type {Node} */ (nodes.get(pair.source));
  const last = /** @type {Node} */ (nodes.get(pair.target));
  /** @type {Node[]} */
  const lanes = [];
  for (let layer = first.layer + 1; layer < last.layer; layer++) {
    lanes.push({ ...makeNode("", layer, LANE_HEIGHT), isLane: true, before: [], after: [] });
  }
  const chain = [first, ...lanes, last];
  chain.slice(1).forEach((right, at) => {
    const left = /** @type {Node} */ (chain[at]);
    const leftPort = left.isLane ? LANE_HEIGHT / 2 : pair.sourcePort;
    const rightPort = right.isLane ? LANE_HEIGHT / 2 : pair.targetPort;
    const joint = { left, right, leftPort, rightPort, weight: pair.weight };
    left.after.push(joint);
    right.before.push(joint);
  });
  return lanes;
}

/**
 * @param {Node[]} nodes
 */
function columnsOf(nodes) {
  /** @type {Node[][]} */
  const columns = Array.from({ length: Math.max(-1, ...nodes.map((node) => node.layer)) + 1 }, () => []);
  for (const node of nodes) columns[node.layer]?.push(node);
  return columns;
}

/**
 * The left end of each layer: where many edges pass, there is more room for them.
 * @param {Node[][]} columns
 * @param {Pair[]} pairs
 * @param {Map<string, number>} layers
 * @param {number} width
 */
function leftsOf(columns, pairs, layers, width) {
  const passing = columns.map(() => 0);
  for (const pair of pairs) {
    const [from, to] = [layers.get(pair.source) ?? 0, layers.get(pair.target) ?? 0];
    for (let layer = Math.min(from, to); layer < Math.max(from, to); layer++) {
      passing[layer] = (passing[layer] ?? 0) + pair.weight;
    }
  }
  let left = 0;
  return columns.map((_, layer) => {
    if (layer > 0) left += width + Math.min(GAP + (passing[layer - 1] ?? 0) * GAP_PER_EDGE, GAP_MAX);
    return Math.round(left);
  });
}
