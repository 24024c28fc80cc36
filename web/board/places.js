// Where the visitor was at each address in the history of the tab: Back shows the same races open, at the same place.

/** By the entry of the history: the races that were open, the place on the page, and what had the focus. */
const places = new Map();
let entry;

/** Notes where the visitor is on a view that is left. */
export function leave(view) {
  places.set(entry, placeOn(view));
}

/** Takes the entry of the history that is shown now. Returns the place that was left there, or `null`. */
export function arrive() {
  const { state } = history;
  entry = state?.entry ?? `${Date.now()}-${places.size}`;
  if (!state?.entry) history.replaceState({ entry }, "");
  return places.get(entry) ?? state?.place ?? null;
}

/** Notes the place in the history itself, which outlives the page. */
export function keep(view) {
  history.replaceState({ entry, place: placeOn(view) }, "");
}

function placeOn(view) {
  const races = [...view.element.querySelectorAll(".race")];
  const anchor = races.find((race) => race.getBoundingClientRect().bottom > stripBottom());
  const focused = document.activeElement;
  const href = focused?.getAttribute("href");
  return {
    y: scrollY,
    opened: view.opened,
    // The heights of races that were never in view are estimates: the place is that of a race.
    anchor: anchor && { id: anchor.id, top: anchor.getBoundingClientRect().top },
    href,
    // A grid of races has links of its own to them.
    nth: href ? linksTo(href, view).indexOf(focused) : -1,
  };
}

const linksTo = (href, view) => [...view.element.querySelectorAll(`a[href="${CSS.escape(href)}"]`)];

const stripBottom = () => document.querySelector(".top")?.getBoundingClientRect().bottom ?? 0;

/** Goes to a place on a view that is there again. */
export function restore({ y, anchor, href, nth }, view) {
  const links = href ? linksTo(href, view) : [];
  const link = links[nth] ?? links[0];
  (link ?? view.element.querySelector("h1"))?.focus({ preventScroll: true });
  scrollTo(0, y);
  // Once races in view have their heights, what is above them may have others.
  scrollToAnchor(anchor);
  requestAnimationFrame(() => requestAnimationFrame(() => scrollToAnchor(anchor)));
}

function scrollToAnchor(anchor) {
  const race = anchor && document.getElementById(anchor.id);
  if (race) scrollBy(0, race.getBoundingClientRect().top - anchor.top);
}

// The browser would restore the place before the races are there.
history.scrollRestoration = "manual";
