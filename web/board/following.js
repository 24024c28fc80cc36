// The horses, people and venues that the visitor follows. They are kept in this browser, and no server sees them.

import { element, setAttribute, svg } from "./dom.js";
import { price } from "./odds.js";

const STORED = "railbird-following";
/** Each of them is looked for in the races that change. The oldest one makes room for another. */
const FOLLOWED_MAX = 200;
/** A price that has moved by this share is news. */
const MOVE_MIN = 0.1;
const STAR = "M12 2.5l2.9 6.3 6.9.8-5.1 4.7 1.4 6.8L12 17.7l-6.1 3.4 1.4-6.8L2.2 9.6l6.9-.8z";

const idOf = ({ kind, key }) => `${kind}/${key}`;

/** `{ kind, key, name }` by kind and key; the kinds are those of the paths of the API. */
let followed = stored();

/** A browser may forbid the page to keep anything, and what it kept may be of another version. */
function stored() {
  try {
    const list = JSON.parse(localStorage.getItem(STORED)) ?? [];
    return new Map(list.filter(({ kind, key, name }) => kind && key && name).map((one) => [idOf(one), one]));
  } catch {
    return new Map();
  }
}

// Another tab has changed it.
addEventListener("storage", ({ key }) => {
  if (key !== STORED) return;
  followed = stored();
  for (const button of document.querySelectorAll("[data-follows]")) press(button);
});

/** What is followed, in the order in which it was chosen. */
export function all() {
  return [...followed.values()];
}

function toggle(one) {
  const id = idOf(one);
  if (!followed.delete(id)) followed.set(id, one);
  if (followed.size > FOLLOWED_MAX) followed.delete(followed.keys().next().value);
  try {
    localStorage.setItem(STORED, JSON.stringify(all()));
  } catch {
    // It holds until the page is closed.
  }
  for (const button of document.querySelectorAll(`[data-follows="${CSS.escape(id)}"]`)) press(button);
}

function press(button) {
  setAttribute(button, "aria-pressed", `${followed.has(button.dataset.follows)}`);
}

/** A button that follows, and no longer follows. */
export function star(kind, key, name) {
  const text = `Follow ${name}`;
  const button = element(
    "button",
    { type: "button", class: "star", "data-follows": idOf({ kind, key }), "aria-label": text, title: text },
    svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, svg("path", { d: STAR })),
  );
  button.addEventListener("click", () => toggle({ kind, key, name }));
  press(button);
  return button;
}

/** The names of the followed horses that run in a race. */
function namesIn(race) {
  const runs = ({ kind, key }) => kind === "horses" && race.runners.has(key) && !race.runners.get(key).isWithdrawn;
  return all()
    .filter(runs)
    .map(({ name }) => name);
}

/** What is news about the horses that are followed. */
export class FollowedNews {
  /** By race and horse: the price when it was last news, or first followed. */
  #prices = new Map();

  clear() {
    this.#prices.clear();
  }

  /** The followed horses that run in a race that goes off, as a sentence. */
  off(race) {
    const names = namesIn(race);
    return names.length > 0 ? `${names.join(", ")} ${names.length > 1 ? "run" : "runs"} in it` : "";
  }

  /** A sentence for each price that has moved since it was last news. `pricesBefore` are those before the latest ones. */
  moves(race, pricesBefore) {
    if (!race.isOpen) return [];
    return all().flatMap(({ kind, key, name }) => {
      const win = kind === "horses" ? (race.prices.get(key)?.win ?? null) : null;
      if (win === null) return [];
      const id = `${race.key}/${key}`;
      const before = this.#prices.get(id) ?? pricesBefore.get(key)?.win ?? win;
      const isNews = Math.abs(win / before - 1) >= MOVE_MIN;
      this.#prices.set(id, isNews ? win : before);
      return isNews ? [`${name} is now ${price(win)}, was ${price(before)}`] : [];
    });
  }
}
