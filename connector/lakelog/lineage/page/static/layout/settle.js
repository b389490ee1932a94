/** Heights: each node lies where its edges are straight, as near as its order and the gaps allow. */

/** @import {Node} from "./order.js" */

const GAP = 24;
const LANE_GAP = 12;
const SWEEPS = 8;

/**
 * Set `y` of all nodes. The nodes of a layer are in their order, which is kept.
 * @param {Node[][]} layers
 */
export function settleLayers(layers) {
  for (const nodes of layers) stack(nodes);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isRight = sweep % 2 === 0;
    const isLast = sweep >= SWEEPS - 2;
    for (const nodes of isRight ? layers : [...layers].reverse()) {
      settle(nodes, nodes.map((node) => wantedTop(node, isRight || isLast, !isRight || isLast)));
    }
  }
  const top = Math.min(...layers.flat().map((node) => node.y));
  for (const node of layers.flat()) node.y -= top;
}

/**
 * @param {Node} above
 * @param {Node} below
 */
function gapOf(above, below) {
  return above.isLane || below.isLane ? LANE_GAP : GAP;
}

/**
 * One below the other, around zero.
 * @param {Node[]} nodes
 */
function stack(nodes) {
  const tops = topsOf(nodes);
  const last = nodes.at(-1);
  const height = last === undefined ? 0 : (tops.at(-1) ?? 0) + last.height;
  nodes.forEach((node, at) => (node.y = (tops[at] ?? 0) - height / 2));
}

/**
 * The tops of nodes that are packed as closely as gaps allow.
 * @param {Node[]} nodes
 */
function topsOf(nodes) {
  let top = 0;
  return nodes.map((node, at) => {
    const above = nodes[at - 1];
    if (above !== undefined) top += above.height + gapOf(above, node);
    return top;
  });
}

/**
 * The top at which the edges of a node are straight on average.
 * @param {Node} node
 * @param {boolean} before
 * @param {boolean} after
 */
function wantedTop(node, before, after) {
  let sum = 0;
  let count = 0;
  for (const joint of before ? node.before : []) {
    sum += (joint.left.y + joint.leftPort - joint.rightPort) * joint.weight;
    count += joint.weight;
  }
  for (const joint of after ? node.after : []) {
    sum += (joint.right.y + joint.rightPort - joint.leftPort) * joint.weight;
    count += joint.weight;
  }
  return count === 0 ? node.y : sum / count;
}

/**
 * The tops nearest to those wanted, in order and apart: neighbours that would overlap are joined and share a mean.
 * @param {Node[]} nodes
 * @param {number[]} wanted
 */
function settle(nodes, wanted) {
  const packed = topsOf(nodes);
  /** @type {{sum: number, count: number}[]} */
  const groups = [];
  wanted.forEach((top, at) => {
    let group = { sum: top - (packed[at] ?? 0), count: 1 };
    for (let above = groups.at(-1); above && above.sum / above.count >= group.sum / group.count; above = groups.at(-1)) {
      groups.pop();
      group = { sum: above.sum + group.sum, count: above.count + group.count };
    }
    groups.push(group);
  });
  let at = 0;
  for (const { sum, count } of groups) {
    for (let left = count; left > 0; left--, at++) {
      const node = nodes[at];
      if (node !== undefined) node.y = sum / count + (packed[at] ?? 0);
    }
  }
}
