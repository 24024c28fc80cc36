// Writes changes to the page when the browser draws it, and no longer at a time than a frame allows.
//
// A view that changes often is marked as often, and painted once. Browsers draw no hidden page, so a hidden page paints
// nothing, and the newest once it is visible again.

/** Time for the views of a frame. The rest follows in the next one. */
const FRAME_MS_MAX = 8;
/** Time between two paints. Nobody reads faster, and the browser lays the page out once for all changes in between. */
const INTERVAL_MS = 100;

export class Painter {
  /** Whether changes are held back, because the visitor wants to read. */
  #isPaused = false;
  #views = new Set();
  #isRequested = false;
  /** Until when changes are not emphasized: they are many at a time, and old. */
  #quietUntil = 0;
  #paintedAt = -Infinity;

  constructor() {
    document.addEventListener("visibilitychange", () => this.quieten());
  }

  /** Has a view painted: an object with `paint(isEmphasized)`. */
  mark(view) {
    this.#views.add(view);
    this.#request();
  }

  drop(view) {
    this.#views.delete(view);
  }

  /** Paints what waits at once, also while changes are held back: a new view is complete before it has the focus. */
  paintAll() {
    for (const view of [...this.#views]) {
      this.#views.delete(view);
      view.paint(false);
    }
  }

  /** The number of views that wait while the page is paused. */
  get waiting() {
    return this.#views.size;
  }

  get isPaused() {
    return this.#isPaused;
  }

  set isPaused(isPaused) {
    this.#isPaused = isPaused;
    this.quieten();
    this.#request();
  }

  /** Paints the next changes without emphasis. */
  quieten() {
    this.#quietUntil = performance.now() + 1000;
  }

  #request() {
    if (this.#isRequested || this.#isPaused || this.#views.size === 0) return;
    this.#isRequested = true;
    const wait = this.#paintedAt + INTERVAL_MS - performance.now();
    setTimeout(() => requestAnimationFrame(() => this.#paint()), Math.max(0, wait));
  }

  #paint() {
    this.#isRequested = false;
    if (this.#isPaused) return;
    const start = performance.now();
    const isEmphasized = start > this.#quietUntil;
    this.#paintedAt = start;
    // A copy: what is marked meanwhile, also by a view itself, waits for the next interval.
    for (const view of [...this.#views]) {
      if (performance.now() - start > FRAME_MS_MAX) {
        // The rest follows in the next frame.
        this.#paintedAt = -Infinity;
        break;
      }
      this.#views.delete(view);
      view.paint(isEmphasized);
    }
    this.#request();
  }
}
