/** Layers from left to right: each box lies right of what it is made from, as far as there is no cycle. */

/**
 * @typedef {{source: string, target: string, sourcePort: number, targetPort: number, weight: number}} Pair
 */

/**
 * The layer of each key, from 0. Pairs that close a cycle are turned for this, and returned.
 * @param {string[]} keys In the order in which a cycle is entered.
 * @param {Pair[]} pairs
 * @returns {{layers: Map<string, number>, turned: Set<Pair>}}
 */
export function layersOf(keys, pairs) {
  const after = groupBy(pairs, (pair) => pair.source);
  const turned = cycleEnds(keys, after);
  /** @type {Map<string, string[]>} */
  const nexts = new Map(keys.map((key) => [key, []]));
  for (const pair of pairs) {
    const [from, to] = turned.has(pair) ? [pair.target, pair.source] : [pair.source, pair.target];
    nexts.get(from)?.push(to);
  }
  const layers = longestPaths(keys, nexts);
  pullRight(keys, nexts, layers);
  return { layers, turned };
}

/**
 * The pairs that lead back to a box that is still being visited.
 * @param {string[]} keys
 * @param {Map<string, Pair[]>} after
 */
function cycleEnds(keys, after) {
  /** @type {Set<Pair>} */
  const found = new Set();
  /** @type {Map<string, 'open' | 'done'>} */
  const seen = new Map();
  for (const start of keys) {
    if (seen.has(start)) continue;
    seen.set(start, "open");
    const stack = [{ key: start, left: [...(after.get(start) ?? [])] }];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const pair = top.left.pop();
      if (pair === undefined) {
        seen.set(top.key, "done");
        stack.pop();
      } else if (seen.get(pair.target) === "open") {
        found.add(pair);
      } else if (!seen.has(pair.target)) {
        seen.set(pair.target, "open");
        stack.push({ key: pair.target, left: [...(after.get(pair.target) ?? [])] });
      }
    }
  }
  return found;
}

/**
 * @param {string[]} keys
 * @param {Map<string, string[]>} nexts
 */
function longestPaths(keys, nexts) {
  const layers = new Map(keys.map((key) => [key, 0]));
  const waits = new Map(keys.map((key) => [key, 0]));
  for (const targets of nexts.values()) for (const to of targets) waits.set(to, (waits.get(to) ?? 0) + 1);
  const ready = keys.filter((key) => waits.get(key) === 0);
  for (let at = 0; at < ready.length; at++) {
    const key = /** @type {string} */ (ready[at]);
    for (const to of nexts.get(key) ?? []) {
      layers.set(to, Math.max(layers.get(to) ?? 0, (layers.get(key) ?? 0) + 1));
      const left = (waits.get(to) ?? 0) - 1;
      waits.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
  return layers;
}

/**
 * A source lies beside what is first made from it, not at the far left.
 * @param {string[]} keys
 * @param {Map<string, string[]>} nexts
 * @param {Map<string, number>} layers
 */
function pullRight(keys, nexts, layers) {
  const hasSource = new Set([...nexts.values()].flat());
  for (const key of keys) {
    const targets = nexts.get(key) ?? [];
    if (hasSource.has(key) || targets.length === 0) continue;
    layers.set(key, Math.min(...targets.map((to) => layers.get(to) ?? 1)) - 1);
  }
}

/**
 * @template T
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @returns {Map<string, T[]>}
 */
export function groupBy(items, keyOf) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
