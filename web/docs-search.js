// The search of the docs: pure, so that it can be tested without a browser.

/** The number of results shown: more are not read, but refined. */
const RESULTS_MAX = 12;
/** Characters of text around the first word that was found. */
const EXCERPT_BEFORE = 40;
const EXCERPT_LENGTH = 140;
/** Characters at the beginning of a section, which say what it is about. */
const OPENING_LENGTH = 60;

/**
 * @typedef {{ title: string, anchor: string, text: string }} Section
 * @typedef {{ path: string, title: string, sections: Section[] }} Page
 * @typedef {{ path: string, page: string, title: string, excerpt: string, score: number }} Result
 */

/**
 * The words of a query, in lower case.
 *
 * @param {string} query
 */
export function words(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/**
 * The sections that have all words of a query, best first, and how many there are.
 *
 * @param {Page[]} pages
 * @param {string} query
 * @returns {{ results: Result[], count: number }}
 */
export function search(pages, query) {
  const wanted = words(query);
  if (wanted.length === 0) return { results: [], count: 0 };
  const results = pages.flatMap((page) => page.sections.map((section) => match(page, section, wanted)));
  const found = results.filter((result) => result !== null);
  found.sort((a, b) => b.score - a.score);
  return { results: found.slice(0, RESULTS_MAX), count: found.length };
}

/** @returns {Result | null} */
function match(page, section, wanted) {
  const title = section.title.toLowerCase();
  const text = section.text.toLowerCase();
  const pageTitle = page.title.toLowerCase();
  let score = 0;
  for (const word of wanted) {
    const ofText = scoreOf(text, word) + (text.slice(0, OPENING_LENGTH).includes(word) ? 2 : 0);
    const ofWord = scoreOf(title, word) * 10 + scoreOf(pageTitle, word) * 2 + ofText;
    if (ofWord === 0) return null;
    score += ofWord;
  }
  if (title === wanted.join(" ")) score += 100;
  const at = Math.max(0, text.indexOf(wanted.find((word) => text.includes(word)) ?? ""));
  const start = at <= EXCERPT_BEFORE ? 0 : section.text.indexOf(" ", at - EXCERPT_BEFORE) + 1;
  const path = section.anchor ? `${page.path}#${section.anchor}` : page.path;
  const excerpt = section.text.slice(start, start + EXCERPT_LENGTH).trim();
  return { path, page: page.title, title: section.title, excerpt, score };
}

/** 3 for a whole word, 2 for the beginning of one, 1 for a part, 0 for none. */
function scoreOf(text, word) {
  let best = 0;
  for (let at = text.indexOf(word); at >= 0 && best < 3; at = text.indexOf(word, at + 1)) {
    const begins = at === 0 || !isLetter(text[at - 1]);
    const ends = at + word.length === text.length || !isLetter(text[at + word.length]);
    best = Math.max(best, begins && ends ? 3 : begins ? 2 : 1);
  }
  return best;
}

function isLetter(character) {
  return /[\p{L}\p{N}_]/u.test(character);
}
