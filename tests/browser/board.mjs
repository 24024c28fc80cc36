// Opens the board in a browser, and does what the lines of standard input say: each is a command as a JSON array, and
// is answered by a line of JSON: { "ok": the answer } or { "error": why it failed }.
//
//     node board.mjs http://127.0.0.1:8080
//
// RAILBIRD_BROWSER is the path of the browser: a Chromium, or a Firefox.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { launch, report, violations, watch } from "./browser.mjs";

const [service] = process.argv.slice(2);

const browser = await launch();
let page;
/** What the page must not have done. */
let problems;

/** How long each request takes on a slow connection. */
const SLOW_MS = 150;

/** Adds up how much the page moves by itself: the cumulative layout shift, where the browser measures it. */
function sumShifts() {
  window.shift = 0;
  if (!PerformanceObserver.supportedEntryTypes.includes("layout-shift")) return;
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shift += value;
  }).observe({ type: "layout-shift", buffered: true });
}

const commands = {
  /** Opens an address in a new tab, with a key or without one. */
  async open({
    fragment = "",
    key = null,
    width = 1280,
    height = 900,
    scheme = "light",
    motion = "no-preference",
    zone = "Asia/Hong_Kong",
    languages = null,
    held = null,
    following = null,
    cookie = null,
    scripts = true,
    slow = false,
  }) {
    await page?.context().close();
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: scheme,
      reducedMotion: motion,
      locale: "en-GB",
      timezoneId: zone,
      javaScriptEnabled: scripts,
    });
    if (cookie) {
      const [name, value] = cookie.split("=");
      await context.addCookies([{ name, value, url: service, httpOnly: true, sameSite: "Strict" }]);
    }
    const store = ([key, service]) => location.origin === service && sessionStorage.setItem("railbird-key", key);
    if (key) await context.addInitScript(store, [key, service]);
    const speak = (tags) => Object.defineProperty(navigator, "languages", { get: () => tags });
    const follow = (list) => localStorage.setItem("railbird-following", JSON.stringify(list));
    if (following) await context.addInitScript(follow, following);
    if (languages) await context.addInitScript(speak, languages);
    await context.addInitScript(sumShifts);
    page = await context.newPage();
    problems = watch(page, service);
    // Requests that are never answered.
    if (held) await page.route(held, () => {});
    if (slow) await page.route("**", (route) => setTimeout(() => route.continue(), SLOW_MS));
    await page.goto(`${service}/${fragment}`);
  },
  /** Opens an address in another tab, by a link on a page of another site, such as one that shows a mail. */
  async follow(fragment) {
    page = await page.context().newPage();
    problems = watch(page, service);
    await page.setContent(`<a href="${service}/${fragment}">The board</a>`);
    await page.locator("a").click();
  },
  /** Waits until the text of an element has a part. */
  async until(selector, part) {
    const has = ([selector, part]) =>
      [...document.querySelectorAll(selector)].some((node) =>
        (node.innerText ?? node.textContent).replace(/\s+/g, " ").includes(part),
      );
    await page.waitForFunction(has, [selector, part]).catch(async () => {
      const found = await page.locator(selector).allInnerTexts();
      const shown = await page.locator("body").innerText();
      throw new Error(`no "${part}" in ${selector}, but ${JSON.stringify(found)}; ${problems.join("; ")}; ${shown}`);
    });
  },
  // In one step: an element that the page replaces between two steps has a text without its spaces.
  texts: (selector) =>
    page.evaluate(
      (selector) =>
        [...document.querySelectorAll(selector)].map((node) =>
          (node.innerText ?? node.textContent).replace(/\s+/g, " ").trim(),
        ),
      selector,
    ),
  attribute: (selector, name) => page.locator(selector).first().getAttribute(name),
  click: (selector) => page.locator(selector).first().click(),
  hover: (selector) => page.locator(selector).first().hover(),
  /** Presses the mouse at a part of the width of an element, moves it to another one, and releases it. */
  async drag(selector, from, to) {
    const { x, y, width, height } = await page.locator(selector).first().boundingBox();
    const move = (part) => page.mouse.move(x + part * width, y + height / 2, { steps: 8 });
    await move(from);
    await page.mouse.down();
    await move(to);
    await page.mouse.up();
  },
  press: (key) => page.keyboard.press(key),
  fill: (selector, text) => page.locator(selector).fill(text),
  evaluate: (script) => page.evaluate(script),
  async until_true(expression) {
    // The page forbids the evaluation of texts that `waitForFunction` uses.
    while (!(await page.evaluate(expression))) await page.evaluate(() => new Promise(requestAnimationFrame));
  },
  media: (media) => page.emulateMedia({ media }),
  /** Shows the page at a width, light or dark. */
  async look(width, colorScheme) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
  },
  scroll: (y) => page.evaluate((y) => scrollTo(0, y), y),
  picture: (path) => page.screenshot({ path }).then(() => path),
  reload: () => page.reload().then(() => null),
  release: () => page.unrouteAll(),
  problems: () => problems,
  axe: () => violations(page),
  /** How much two pictures differ when they are made small: the mean difference of a colour, 0 to 255. */
  async difference(one, other) {
    const url = (path) => `data:image/png;base64,${readFileSync(path, "base64")}`;
    const blank = await browser.newPage();
    const found = await blank.evaluate(
      async (urls) => {
        const [width, height] = [64, 45];
        const pixels = await Promise.all(
          urls.map(async (url) => {
            const image = new Image();
            image.src = url;
            await image.decode();
            const canvas = new OffscreenCanvas(width, height).getContext("2d");
            canvas.imageSmoothingQuality = "high";
            canvas.drawImage(image, 0, 0, width, height);
            return [image.width, image.height, canvas.getImageData(0, 0, width, height).data];
          }),
        );
        const [[w, h, a], [w2, h2, b]] = pixels;
        if (w !== w2 || h !== h2) return 255;
        return a.reduce((sum, value, index) => sum + Math.abs(value - b[index]), 0) / a.length;
      },
      [url(one), url(other)],
    );
    await blank.close();
    return found;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...args] = JSON.parse(line);
  try {
    report({ ok: (await commands[name](...args)) ?? null });
  } catch (error) {
    report({ error: `${name} ${args.join(" ")}: ${error.message}` });
  }
}
await browser.close();
