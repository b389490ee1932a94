/**
 * The shapes of what the server answers and of what the page holds. Types alone: nothing here runs.
 *
 * @typedef {{ns: string, dataset: string}} Dataset
 * @typedef {{from: number, lastClean: number | null}} Taint
 *
 * @typedef {{name: string, type: string | null, state?: string, generated?: boolean, tainted?: boolean}} Field
 * @typedef {{id: number, ns: string, dataset: string, foreign: boolean, hop: number, fieldCount: number, shown: number,
 *   fields: Field[], moreUp: boolean, moreDown: boolean, tainted?: Taint}} DatasetAnswer
 * @typedef {{source: [number, string], target: [number, string], kinds: string[], masked: boolean, direct: boolean,
 *   approximate: boolean, opaque: boolean}} EdgeAnswer
 * @typedef {{source: [number, string], target: number, kinds: string[], masked?: boolean,
 *   approximate?: boolean}} DatasetEdgeAnswer
 * @typedef {{ns: string, dataset: string, hop: number, fields: number}} Neighbour
 * @typedef {{root: {ns: string, dataset: string, field: string | null}, datasets: DatasetAnswer[], edges: EdgeAnswer[],
 *   datasetEdges: DatasetEdgeAnswer[], total: number, limit: number, tooMany: boolean,
 *   neighbours?: Neighbour[]}} GraphAnswer
 *
 * @typedef {{ns: string, dataset: string, field: string | null, type: string | null, foreign: boolean,
 *   hasLineage: boolean}} Found
 * @typedef {{total: number, results: Found[]}} SearchAnswer
 *
 * @typedef {{origin: string, field: string}} End
 * @typedef {{kind: string, name: string, description: string, dataset: Dataset | null, inputs: End[],
 *   outputs: string[]}} Operation
 * @typedef {{run: string, query: string | null, operation?: string | null, firstBatch: number | null, lastBatch: number | null, firstTime: string,
 *   lastTime: string, firstSnapshot: number | null, lastSnapshot: number | null}} Run
 * @typedef {{checksum: string, job: string, operations: Operation[], sql: string | null, kinds: string[],
 *   approximate: boolean, opaque: boolean, masked?: boolean, runs: Run[], runCount?: number}} Write
 * @typedef {{writes: Write[]}} EdgeOperations
 *
 * @typedef {{name: string, type: string | null, id: number | null, hasLineage: boolean, state?: string}} Column
 * @typedef {{table: string, from: number | null, to: number | null}} SnapshotSource
 * @typedef {{id: number, time: string, job: string | null, operation: string | null, rows: number | null,
 *   sources: SnapshotSource[], tags: string[], tainted?: boolean}} Snapshot
 * @typedef {{ns: string, dataset: string, fields: Column[], snapshots: Snapshot[], next: number | null,
 *   tags: {name: string, snapshot: number}[], branches: string[]}} DatasetDetails
 *
 * @typedef {{ns: string, dataset: string, field: string, hop: number, direct: boolean, kinds: string[],
 *   jobs: string[]}} ImpactRow
 *
 * @typedef {{rows: ImpactRow[], total?: number}} ImpactAnswer
 *
 * A box of the graph; `key` is its name as one string.
 * @typedef {{key: string, ns: string, dataset: string, foreign: boolean, hop: number, fieldCount: number,
 *   fields: Map<string, Field>, moreUp: boolean, moreDown: boolean, tainted: Taint | null}} Box
 *
 * An edge; `target` is the key of a box where the edge counts for all of its columns.
 * @typedef {{id: string, source: string, target: string, sourceBox: string, targetBox: string, sourceField: string,
 *   targetField: string | null, kinds: string[], masked: boolean, direct: boolean, approximate: boolean,
 *   opaque: boolean}} Edge
 * @typedef {{root: string, boxes: Map<string, Box>, edges: Map<string, Edge>, into: Map<string, Edge[]>,
 *   outOf: Map<string, Edge[]>, total: number, limit: number, tooMany: boolean, neighbours: Neighbour[]}} Graph
 *
 * What is locked or under the pointer: everything that leads to it and away from it, in what is drawn. `starts` says
 * of how many ends it is the path: one of a column, two of an edge, more of a dataset.
 * @typedef {{ends: Map<string, 'up' | 'down' | 'self'>, edges: Map<string, 'up' | 'down' | 'self'>,
 *   boxes: Set<string>, starts: number}} Path
 *
 * The rows of a box: those drawn, and how many there are. `total` counts what the filter lets pass.
 * @typedef {{rows: Field[], total: number, hasFilter: boolean, isAll: boolean, isClosed: boolean,
 *   height: number}} BoxRows
 *
 * @typedef {{x: number, y: number, k: number}} Place
 * @typedef {{x: number, y: number}} Point
 *
 * @typedef {{ns: string, dataset: string, field: string, direction: string, depth: number, limit: number,
 *   start: string, end: string, at: string, wrong: string, kinds: string, view: string, lock: string, drawer: boolean, q: string, more: string[],
 *   closed: string[], all: string[], rows: Record<string, string>, filter: Record<string, string>,
 *   expanded: string[], place: Place | null}} State
 *
 * What the views show: the state, and what was loaded and computed for it.
 * @typedef {{state: State, graph: Graph | null, path: Path | null, columns: Map<string, Field[]>, isLoading: boolean,
 *   error: string}} Shown
 *
 * @typedef {(patch: Partial<State>, how?: 'push' | 'replace') => void} Change
 */
export {};
