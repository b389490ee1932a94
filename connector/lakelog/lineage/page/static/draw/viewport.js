/** Pan and zoom: one transform of one element. Drag, pinch, wheel; the wheel with Ctrl zooms. */

/** @import {Place, Point} from "../data/types.js" */

const SCALE_MIN = 0.05;
const SCALE_MAX = 2;
const DRAG_MIN = 4;
const MARGIN = 28;
export const LEGIBLE = 0.72;

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Rectangle
 * @typedef {ReturnType<typeof keepViewport>} Viewport
 */

/**
 * @param {HTMLElement} host What is seen.
 * @param {HTMLElement} world What is moved.
 * @param {(place: Place, isByHand: boolean) => void} onMove
 */
export function keepViewport(host, world, onMove) {
  /** @type {Place} */
  let place = { x: 0, y: 0, k: 1 };
  let size = { width: 0, height: 0 };
  let resting = 0;
  new ResizeObserver(() => {
    measure();
    onMove(place, false);
  }).observe(host);

  function measure() {
    size = { width: host.clientWidth, height: host.clientHeight };
  }

  /**
   * @param {Place} next
   * @param {boolean} isByHand
   */
  function set(next, isByHand = false) {
    place = { x: next.x, y: next.y, k: Math.min(Math.max(next.k, SCALE_MIN), SCALE_MAX) };
    world.style.transform = `translate(${place.x}px, ${place.y}px) scale(${place.k})`;
    if (isByHand) {
      host.classList.add("moving");
      clearTimeout(resting);
      resting = setTimeout(() => host.classList.remove("moving"), 200);
    }
    onMove(place, isByHand);
  }

  /**
   * Zoom so that a point of the host stays where it is.
   * @param {number} factor
   * @param {Point} [about]
   */
  function zoom(factor, about = { x: size.width / 2, y: size.height / 2 }) {
    const k = Math.min(Math.max(place.k * factor, SCALE_MIN), SCALE_MAX);
    const ratio = k / place.k;
    set({ x: about.x - (about.x - place.x) * ratio, y: about.y - (about.y - place.y) * ratio, k }, true);
  }

  /**
   * @param {Rectangle} rectangle
   * @param {number} k
   * @param {boolean} isByHand
   */
  function centre({ x, y, width, height }, k = place.k, isByHand = false) {
    set({ x: size.width / 2 - (x + width / 2) * k, y: size.height / 2 - (y + height / 2) * k, k }, isByHand);
  }

  /**
   * Show all of it, never larger than it is.
   * @param {{width: number, height: number}} whole
   * @param {boolean} isByHand
   */
  function fit({ width, height }, isByHand = false) {
    const k = Math.min(1, (size.width - 2 * MARGIN) / width, (size.height - 2 * MARGIN) / height);
    centre({ x: 0, y: 0, width, height }, Math.max(k, SCALE_MIN), isByHand);
  }

  /**
   * Show all of it where it can be read then, else one rectangle of it.
   * @param {{width: number, height: number}} whole
   * @param {Rectangle | null} middle
   */
  function fitLegibly(whole, middle) {
    measure(); // it may have been hidden until now
    fit(whole);
    if (place.k < LEGIBLE && middle !== null) {
      const k = size.width < 600 ? 0.8 : 0.9;
      centre({ ...middle, height: Math.min(middle.height, size.height / k) }, k);
      // No empty margin beside a picture that is larger than its room.
      const wide = whole.width * k;
      if (wide > size.width) set({ ...place, x: Math.max(Math.min(place.x, MARGIN), size.width - MARGIN - wide) });
    }
  }

  /**
   * Move as little as is needed to see a rectangle.
   * @param {Rectangle} rectangle
   */
  function reveal({ x, y, width, height }) {
    measure();
    const { k } = place;
    const pull = (/** @type {number} */ start, /** @type {number} */ length, /** @type {number} */ room) => {
      if (start < MARGIN) return MARGIN - start;
      return Math.max(Math.min(room - MARGIN - (start + length), 0), MARGIN - start);
    };
    const right = pull(place.x + x * k, width * k, size.width);
    const down = pull(place.y + y * k, height * k, size.height);
    if (right !== 0 || down !== 0) set({ x: place.x + right, y: place.y + down, k }, true);
  }

  listen(host, { get: () => place, set, zoom });
  return { get: () => place, size: () => size, set, zoom, centre, fit, fitLegibly, reveal };
}

/**
 * @param {HTMLElement} host
 * @param {{get: () => Place, set: (place: Place, isByHand: boolean) => void, zoom: (by: number, about: Point) => void}} view
 */
function listen(host, view) {
  /** @type {Map<number, Point>} */
  const held = new Map();
  /** @type {Point | null} */
  let from = null;
  let isDragged = false;

  const inHost = (/** @type {MouseEvent} */ event) => {
    const { left, top } = host.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };

  host.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || (event.target instanceof Element && event.target.closest("input, .over"))) return;
    held.set(event.pointerId, inHost(event));
    from = inHost(event);
    isDragged = false;
  });

  host.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (before === undefined || from === null) return;
    const now = inHost(event);
    if (!isDragged && Math.hypot(now.x - from.x, now.y - from.y) < DRAG_MIN) return;
    if (!isDragged) host.setPointerCapture(event.pointerId);
    isDragged = true;
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    held.set(event.pointerId, now);
    const place = view.get();
    view.set({ ...place, x: place.x + (now.x - before.x) / held.size, y: place.y + (now.y - before.y) / held.size }, true);
    if (other !== undefined) {
      const ratio = distance(now, other) / Math.max(distance(before, other), 1);
      view.zoom(ratio, { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    }
  });

  for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
    host.addEventListener(name, (event) => held.delete(event.pointerId));
  }
  // The click after a drag is no click.
  host.addEventListener("click", (event) => isDragged && event.stopPropagation(), { capture: true });

  host.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      const place = view.get();
      if (event.ctrlKey || event.metaKey) {
        view.zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.006), inHost(event));
      } else {
        const turned = event.shiftKey && event.deltaX === 0;
        const [right, down] = turned ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
        view.set({ ...place, x: place.x - right * unit, y: place.y - down * unit }, true);
      }
    },
    { passive: false },
  );
}

/**
 * @param {Point} one
 * @param {Point} other
 */
function distance(one, other) {
  return Math.hypot(one.x - other.x, one.y - other.y);
}
