/** Layers from left to right: each box lies right of what it is made from, as far as there is no cycle. */

/**
 * @typedef {{source: string, target: string, sourcePort: number, targetPort: number, weight: number}} Pair
 */

/**
 * The layer of each key, from 0. Pairs that close a cycle are turned for this, and returned.
 * @param {Map<string, number>} hops How far each box is from the middle; what leads to a lower hop is turned first.
 * @param {Pair[]} pairs
 * @returns {{layers: Map<string, number>, turned: Set<Pair>}}
 */
export function layersOf(hops, pairs) {
  const keys = [...hops.keys()];
  /** @type {Map<string, string[]>} */
  const nexts = new Map(keys.map((key) => [key, []]));
  const hop = (/** @type {string} */ key) => hops.get(key) ?? 0;
  const forward = pairs.filter((pair) => hop(pair.source) < hop(pair.target));
  for (const { source, target } of forward) nexts.get(source)?.push(target);
  /** @type {Set<Pair>} */
  const turned = new Set();
  for (const pair of pairs) {
    if (hop(pair.source) < hop(pair.target)) continue;
    const closes = leadsTo(nexts, pair.target, pair.source);
    if (closes) turned.add(pair);
    const [from, to] = closes ? [pair.target, pair.source] : [pair.source, pair.target];
    nexts.get(from)?.push(to);
  }
  const layers = longestPaths(keys, nexts);
  pullRight(keys, nexts, layers);
  return { layers, turned };
}

/**
 * @param {Map<string, string[]>} nexts
 * @param {string} from
 * @param {string} to
 */
function leadsTo(nexts, from, to) {
  const seen = new Set([from]);
  const waiting = [from];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    if (key === to) return true;
    for (const next of nexts.get(key) ?? []) {
      if (!seen.has(next)) waiting.push(next);
      seen.add(next);
    }
  }
  return false;
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
