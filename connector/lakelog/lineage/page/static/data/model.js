/** The graph that is drawn: the server's answers joined, with the edges of each end at hand. */

import { fieldKey, join } from "./names.js";

/** @import {GraphAnswer, DatasetAnswer, Graph, Box, Edge} from "./types.js" */

/**
 * Join the answer for the root with those for single boxes, which lie one hop further.
 * @param {GraphAnswer[]} answers
 * @returns {Graph}
 */
export function makeGraph(answers) {
  const [first, ...further] = answers;
  if (first === undefined) throw new Error("a graph is made of one answer or more");
  /** @type {Graph} */
  const graph = {
    root: join(first.root.ns, first.root.dataset),
    boxes: new Map(),
    edges: new Map(),
    into: new Map(),
    outOf: new Map(),
    total: first.total,
    limit: first.limit,
    tooMany: first.tooMany,
    neighbours: first.neighbours ?? [],
  };
  addAnswer(graph, first, 0);
  for (const answer of further) {
    const asked = graph.boxes.get(join(answer.root.ns, answer.root.dataset));
    if (asked !== undefined && !answer.tooMany) addAnswer(graph, answer, asked.hop);
  }
  if (further.length > 0) graph.total = graph.boxes.size;
  return graph;
}

/**
 * @param {Graph} graph
 * @param {GraphAnswer} answer
 * @param {number} hop The hop of the box that was asked for.
 */
function addAnswer(graph, answer, hop) {
  const keys = new Map(answer.datasets.map((one) => [one.id, join(one.ns, one.dataset)]));
  for (const dataset of answer.datasets) addBox(graph, dataset, hop + dataset.hop);
  for (const { source, target, ...kept } of answer.edges) {
    addEdge(graph, keys.get(source[0]), source[1], keys.get(target[0]), target[1], kept);
  }
  for (const { source, target, kinds, masked = false, approximate = false } of answer.datasetEdges) {
    const kept = { kinds, masked, direct: false, approximate, opaque: false };
    addEdge(graph, keys.get(source[0]), source[1], keys.get(target), null, kept);
  }
}

/**
 * @param {Graph} graph
 * @param {DatasetAnswer} answer
 * @param {number} hop
 */
function addBox(graph, answer, hop) {
  const key = join(answer.ns, answer.dataset);
  const known = graph.boxes.get(key);
  if (known === undefined) {
    const { ns, dataset, foreign, fieldCount, moreUp, moreDown } = answer;
    const fields = new Map(answer.fields.map((field) => [field.name, field]));
    /** @type {Box} */
    const box = { key, ns, dataset, foreign, hop, fieldCount, fields, moreUp, moreDown, tainted: answer.tainted ?? null };
    graph.boxes.set(key, box);
    return;
  }
  for (const field of answer.fields) if (!known.fields.has(field.name)) known.fields.set(field.name, field);
  known.moreUp &&= answer.moreUp; // each answer knows which of its neighbours it holds
  known.moreDown &&= answer.moreDown;
}

/**
 * @param {Graph} graph
 * @param {string | undefined} sourceBox
 * @param {string} sourceField
 * @param {string | undefined} targetBox
 * @param {string | null} targetField
 * @param {Pick<Edge, 'kinds' | 'masked' | 'direct' | 'approximate' | 'opaque'>} kept
 */
function addEdge(graph, sourceBox, sourceField, targetBox, targetField, kept) {
  if (sourceBox === undefined || targetBox === undefined) return;
  const source = fieldKey(sourceBox, sourceField);
  const target = targetField === null ? targetBox : fieldKey(targetBox, targetField);
  const id = `${source}/${target}`;
  if (graph.edges.has(id)) return;
  /** @type {Edge} */
  const edge = { id, source, target, sourceBox, targetBox, sourceField, targetField, ...kept };
  graph.edges.set(id, edge);
  append(graph.outOf, source, edge);
  append(graph.into, target, edge);
}

/**
 * @param {Map<string, Edge[]>} edges
 * @param {string} key
 * @param {Edge} edge
 */
function append(edges, key, edge) {
  const kept = edges.get(key);
  if (kept) kept.push(edge);
  else edges.set(key, [edge]);
}

/**
 * How an edge is to be drawn: its values flow, it is only known about, or it decides about rows.
 * @param {Edge} edge
 * @returns {'sure' | 'unsure' | 'rows'}
 */
export function styleOf(edge) {
  if (edge.approximate || edge.opaque) return "unsure";
  return edge.direct ? "sure" : "rows";
}
