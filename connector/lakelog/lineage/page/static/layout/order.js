/** The order within each layer: every node moves towards the middle of its neighbours, and the best order is kept. */

/**
 * A box, or a lane: the place where a long edge passes a layer.
 * @typedef {{key: string, layer: number, height: number, isLane: boolean, rank: number, y: number,
 *   before: Joint[], after: Joint[]}} Node
 * One piece of an edge between two layers, with where it ends at both nodes.
 * @typedef {{left: Node, right: Node, leftPort: number, rightPort: number, weight: number}} Joint
 */

const SWEEPS = 8;

/**
 * Order the nodes of each layer in place, so that few edges cross.
 * @param {Node[][]} layers
 */
export function orderLayers(layers) {
  number(layers);
  let best = layers.map((nodes) => [...nodes]);
  let fewest = crossingsOf(layers);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const isRight = sweep % 2 === 0;
    for (const nodes of isRight ? layers : [...layers].reverse()) sortLayer(nodes, isRight);
    const crossings = crossingsOf(layers);
    if (crossings < fewest) {
      fewest = crossings;
      best = layers.map((nodes) => [...nodes]);
    }
  }
  layers.splice(0, layers.length, ...best);
  number(layers);
}

/**
 * @param {Node[][]} layers
 */
function number(layers) {
  for (const nodes of layers) nodes.forEach((node, at) => (node.rank = at));
}

/**
 * @param {Node[]} nodes
 * @param {boolean} isRight Whether the neighbours to the left decide.
 */
function sortLayer(nodes, isRight) {
  const wanted = new Map(nodes.map((node) => [node, middleOf(node, isRight)]));
  nodes.sort((one, other) => (wanted.get(one) ?? 0) - (wanted.get(other) ?? 0) || one.rank - other.rank);
  nodes.forEach((node, at) => (node.rank = at));
}

/**
 * The middle of the neighbours on one side; a node without any stays.
 * @param {Node} node
 * @param {boolean} isRight
 */
function middleOf(node, isRight) {
  let sum = 0;
  let count = 0;
  for (const joint of isRight ? node.before : node.after) {
    const [other, port] = isRight ? [joint.left, joint.leftPort] : [joint.right, joint.rightPort];
    sum += (other.rank + port / other.height) * joint.weight;
    count += joint.weight;
  }
  return count === 0 ? node.rank : sum / count;
}

/**
 * @param {Node[][]} layers
 */
function crossingsOf(layers) {
  return layers.reduce((sum, nodes) => sum + crossingsAfter(nodes), 0);
}

/**
 * The crossings between a layer and the next: how many pairs of edges end in the opposite order.
 * @param {Node[]} nodes
 */
function crossingsAfter(nodes) {
  const ends = nodes.flatMap((node) =>
    [...node.after].sort((one, other) => one.right.rank - other.right.rank).map((joint) => joint.right.rank),
  );
  const size = Math.max(-1, ...ends) + 1;
  const counts = new Array(size + 1).fill(0); // a Fenwick tree: how many edges ended at most here
  let crossings = 0;
  ends.forEach((end, passed) => {
    let below = 0;
    for (let at = end + 1; at > 0; at -= at & -at) below += counts[at];
    crossings += passed - below;
    for (let at = end + 1; at <= size; at += at & -at) counts[at]++;
  });
  return crossings;
}
