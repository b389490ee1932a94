/** The whole graph as one SVG document with its own colours, for a page or a document with a light ground. */

import { fieldKey, oneLine } from "../data/names.js";
import { styleOf } from "../data/model.js";
import { SIZES } from "../data/rows.js";
import { pathData } from "../layout/curves.js";
import { makeSvg } from "../ui/dom.js";
import { count } from "../ui/words.js";

/** @import {Field, Path} from "../data/types.js" */
/** @import {Placed, Scene} from "./scene.js" */

const MARGIN = 24;
const DASHES = { sure: "none", unsure: "6 4", rows: "1.5 4" };
const TEXT = "#1a1f29";
const MUTED = "#596273";
const BORDER = "#c9d0da";
const EDGE = "#7b8798";
const ACCENT = "#2a55c8";
const BAD = "#b3261e";
const SIDES = { up: "#0a6a70", down: "#8435a8", self: ACCENT };
const GROUNDS = { up: "#e0f2f2", down: "#f5e9fa", self: "#e9eefb" };

/**
 * @param {Scene} scene
 * @param {string} root The box in the middle.
 * @param {Path | null} path What is locked; it is drawn above the rest.
 */
export function pictureOf(scene, root, path) {
  const lines = [...scene.lines].map(([id, { edge, line }]) => {
    const side = path?.edges.get(id);
    const stroke = side ? SIDES[side] : EDGE;
    const [width, opacity] = [side ? 2 : 1.25, path && !side ? 0.35 : 1];
    const dashes = DASHES[styleOf(edge)];
    return makeSvg("path", { d: pathData(line), fill: "none", stroke, opacity, "stroke-width": width, "stroke-dasharray": dashes });
  });
  const [width, height] = [Math.ceil(scene.width + 2 * MARGIN), Math.ceil(scene.height + 2 * MARGIN)];
  const viewBox = `${-MARGIN} ${-MARGIN} ${width} ${height}`;
  const svg = makeSvg(
    "svg",
    { width, height, viewBox, "font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": 12.5, fill: TEXT },
    makeSvg("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: "#ffffff" }),
    makeSvg("g", {}, ...lines),
    ...[...scene.boxes.values()].map((placed) => makeBox(placed, placed.box.key === root, path)),
  );
  return new XMLSerializer().serializeToString(svg);
}

/**
 * @param {Placed} placed
 * @param {boolean} isRoot
 * @param {Path | null} path
 */
function makeBox({ box, rows, x, y, ports }, isRoot, path) {
  const stroke = isRoot ? ACCENT : box.tainted ? BAD : BORDER;
  const { width, header } = SIZES;
  const all = Math.max(box.fieldCount, rows.total);
  const parts = rows.rows.map((field) => makeRow(field, fieldKey(box.key, field.name), ports, path));
  if (rows.rows.length > 0) parts.unshift(makeSvg("path", { d: `M0 ${header}H${width}`, stroke: BORDER }));
  if (!rows.isClosed && rows.rows.length < all) {
    parts.push(words(12, rows.height - SIZES.end - 10, `${rows.rows.length} of ${count(all, "column")}`, 34, { fill: MUTED, "font-size": 11 }));
  }
  return makeSvg(
    "g",
    { transform: `translate(${x} ${y})`, opacity: path && !path.boxes.has(box.key) ? 0.45 : 1 },
    makeSvg("rect", { width, height: rows.height, rx: 8, fill: "#ffffff", stroke, "stroke-width": isRoot ? 2 : 1 }),
    words(12, 20, box.dataset, 27, { "font-weight": 600, "font-size": 13 }),
    words(12, 36, box.tainted ? `${box.ns}, tainted from ${box.tainted.from}` : box.ns, 34, { fill: box.tainted ? BAD : MUTED, "font-size": 11 }),
    ...parts,
  );
}

/**
 * @param {Field} field
 * @param {string} key
 * @param {Map<string, number>} ports
 * @param {Path | null} path
 */
function makeRow(field, key, ports, path) {
  const middle = ports.get(key) ?? 0;
  const side = path?.ends.get(key);
  const { width, row } = SIZES;
  const ground = makeSvg("rect", { x: 1, y: middle - row / 2, width: width - 2, height: row, fill: side ? GROUNDS[side] : "none" });
  const note = field.tainted ? "tainted" : field.state === "dropped" ? "dropped" : (field.type?.toLowerCase() ?? "");
  const end = { fill: field.tainted ? BAD : MUTED, "font-size": 11, "text-anchor": "end" };
  return makeSvg("g", {}, ground, words(12, middle + 4, field.name, 20, {}), words(width - 12, middle + 4, note, 14, end));
}

/**
 * A text of few enough letters to fit, with all of it as its tooltip.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {number} most
 * @param {Record<string, string | number>} attributes
 */
function words(x, y, text, most, attributes) {
  const letters = [...oneLine(text)];
  const fitted = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
  const element = makeSvg("text", { x, y, "xml:space": "preserve", ...attributes });
  if (letters.length > most) element.append(makeSvg("title", {}, letters.join("")));
  element.append(fitted);
  return element;
}
