/** Elements. Names reach the page by `textContent` and attributes alone, so no name is ever HTML. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes
 * any: each listener names the event that it takes.
 */

/**
 * An element of HTML. A function is a listener, false and null leave an attribute out, a string child is text.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string | null | false)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(...children.filter((child) => child !== null && child !== false));
  return element;
}

/**
 * An element of SVG.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function makeSvg(tag, attributes = {}, ...children) {
  const element = /** @type {SVGElementTagNameMap[T]} */ (document.createElementNS(SVG, tag));
  apply(element, attributes);
  element.append(...children);
  return element;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
export function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, String(value));
  }
}

/**
 * The element of index.html with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element #${id}`);
  return element;
}

const ICONS = {
  centre: "M8 1.5v3M8 11.5v3M1.5 8h3M11.5 8h3M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6z",
  fold: "M4 6l4 4 4-4",
  unfold: "M6 4l4 4-4 4",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4l3.4 3.4",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  up: "M13 8H3M7 4L3 8l4 4",
  down: "M3 8h10M9 4l4 4-4 4",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
};

/**
 * A drawn sign; whoever uses it gives the words.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const path = makeSvg("path", { d: ICONS[name] });
  return makeSvg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

/**
 * A button that is a sign alone.
 * @param {keyof typeof ICONS} sign
 * @param {string} words
 * @param {Attributes} [attributes]
 */
export function iconButton(sign, words, attributes = {}) {
  return make("button", { type: "button", class: "icon-button", "aria-label": words, title: words, ...attributes }, icon(sign));
}

/**
 * Call a function once things have been still for some milliseconds.
 * @template {unknown[]} A
 * @param {(...given: A) => void} call
 * @param {number} millis
 */
export function afterQuiet(call, millis) {
  let timer = 0;
  return (/** @type {A} */ ...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), millis);
  };
}
