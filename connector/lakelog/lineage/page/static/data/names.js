/** Names as keys. Any character may be in a name, so the parts of a key are escaped before they are joined. */

/**
 * One string of several names; `split` gives them back.
 * @param {...string} parts
 */
export function join(...parts) {
  return parts.map((part) => part.replaceAll("%", "%25").replaceAll("/", "%2F")).join("/");
}

/**
 * The names that `join` made a key of.
 * @param {string} key
 */
export function split(key) {
  return key.split("/").map((part) => part.replaceAll("%2F", "/").replaceAll("%25", "%"));
}

/**
 * The key of a column, from the key of its box.
 * @param {string} box
 * @param {string} field
 */
export function fieldKey(box, field) {
  return `${box}/${join(field)}`;
}

/** The signs of what would break a line. */
const SIGNS = new Map([
  ["\n", "↵"],
  ["\r", "↵"],
  ["\t", "⇥"],
]);

/**
 * A name on one line: control characters are shown by signs.
 * @param {string} name
 */
export function oneLine(name) {
  return name.replaceAll(/[\u0000-\u001f\u2028\u2029]/gu, (control) => SIGNS.get(control) ?? "\ufffd");
}

/**
 * What a lock names: a dataset, a column or an edge. Null where the string is not one of them.
 * @param {string} lock
 * @returns {{kind: 'dataset' | 'field' | 'edge', key: string} | null}
 */
export function parseLock(lock) {
  const kind = lock.slice(0, lock.indexOf("/"));
  const key = lock.slice(kind.length + 1);
  const count = key.split("/").length;
  if (kind === "dataset" && count === 2) return { kind, key };
  if (kind === "field" && count === 3) return { kind, key };
  if (kind === "edge" && (count === 5 || count === 6)) return { kind, key };
  return null;
}

/**
 * The key of the box in the key of a box, a column or (its source) an edge.
 * @param {string} key
 */
export function boxOf(key) {
  return key.split("/").slice(0, 2).join("/");
}
