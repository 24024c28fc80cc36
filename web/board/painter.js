// Writes changes to the page when the browser draws it, and no longer at a time than a frame allows.
//
// A view that changes often is marked as often, and painted once. Browsers draw no hidden page, so a hidden page paints
// nothing, and the newest once it is visible again.

/** Time for the views of a frame. The rest follows in the next one. */
const FRAME_MS_MAX = 8;

export class Painter {
  /** Whether changes are held back, because the visitor wants to read. */
  #isPaused = false;
  #views = new Set();
  #isRequested = false;
  /** Until when changes are not emphasized: they are many at a time, and old. */
  #quietUntil = 0;

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
    requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.#isRequested = false;
    if (this.#isPaused) return;
    const start = performance.now();
    const isEmphasized = start > this.#quietUntil;
    for (const view of this.#views) {
      this.#views.delete(view);
      view.paint(isEmphasized);
      if (performance.now() - start > FRAME_MS_MAX) break;
    }
    this.#request();
  }
}
