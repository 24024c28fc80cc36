// The browser of the tests: how it is started, what no page may do, and what axe-core objects to.
//
// RAILBIRD_BROWSER is the path of the browser: a Chromium, or a Firefox.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { chromium, firefox } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ALL_RULES = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  rules: { "target-size": { enabled: true } },
};
const COLOUR_RULES = { runOnly: { type: "rule", values: ["color-contrast"] } };
/** On a page that it cannot check, axe-core passes few rules. */
const PASSES_MIN = 10;

const CHROMIUM_ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--no-zygote",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The timeout of every wait. */
const PATIENCE_MS = Number(process.env.RAILBIRD_PATIENCE_MS ?? 30_000);

/** Gives the waits of a page their timeout, and returns the page. */
export function patient(page) {
  page.setDefaultTimeout(PATIENCE_MS);
  return page;
}

/** Starts the browser. It asks no host for updates. */
export function launch() {
  const executablePath = process.env.RAILBIRD_BROWSER;
  // The channel of a Firefox as it is released, without patches: it is driven by WebDriver BiDi.
  if (basename(executablePath).startsWith("firefox")) return firefox.launch({ executablePath, channel: "moz-firefox" });
  return chromium.launch({ executablePath, args: CHROMIUM_ARGS });
}

/**
 * Watches a page. Returns what it must not do, which is added as it happens: messages on the console that are a problem,
 * errors of scripts, and requests to other hosts than the service.
 */
export function watch(page, service, isProblem = () => true) {
  const problems = [];
  patient(page);
  page.on("console", (message) => {
    if (isProblem(message)) problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.stack}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${service}/`) && !url.startsWith("data:")) problems.push(`${page.url()} requested ${url}`);
  });
  return problems;
}

/** What axe-core objects to, each with the first element. */
export async function violations(page, { onlyColours = false } = {}) {
  // Playwright evaluates it in the page without a script element, which the policy would block.
  await page.evaluate(AXE);
  const rules = onlyColours ? COLOUR_RULES : ALL_RULES;
  const { violations, passes } = await page.evaluate((rules) => window.axe.run(document, rules), rules);
  if (!onlyColours && passes.length < PASSES_MIN) throw new Error(`axe-core passed only ${passes.length} rules`);
  return violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary}`,
  );
}

/** Reports a completed step to the test. */
export const report = (step) => console.log(JSON.stringify(step));

let lines;

/** The next line that the test sends. */
export async function nextLine() {
  lines ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  return (await lines.next()).value;
}
