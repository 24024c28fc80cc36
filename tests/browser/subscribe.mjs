// Subscribes in a browser without JavaScript, signs in with the link of the mail, creates, replaces and revokes keys,
// and leaves.
//
//     node subscribe.mjs http://127.0.0.1:8080 a@racing.example
//
// RAILBIRD_BROWSER is the path of the browser, RAILBIRD_SCREENSHOTS the folder for pictures. Each completed step is
// printed as a line of JSON. Then a line is read from standard input: the link of the mail, or any to continue.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, nextLine, patient, report, violations, watch } from "./browser.mjs";

const [service, email] = process.argv.slice(2);
const folder = process.env.RAILBIRD_SCREENSHOTS;
const WIDTHS = [360, 1280];
if (folder) mkdirSync(folder, { recursive: true });

const browser = await launch();
const context = await browser.newContext({ javaScriptEnabled: false, reducedMotion: "reduce" });
const page = await context.newPage();
// An error page is what some steps want.
const problems = watch(page, service, (message) => !message.text().includes("Failed to load resource"));
/** axe-core needs scripts: it reads copies of the pages. */
const copies = patient(await (await browser.newContext()).newPage());

/** Checks the page for accessibility, and that nothing is cut off, at each width in both schemes. */
async function inspect(state) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await copies.emulateMedia({ colorScheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      if (folder) {
        const path = join(folder, `account-${state}-${width}-${colorScheme}.png`);
        await page.screenshot({ path, fullPage: true });
      }
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, `${state} at ${width} is too wide`);
      await copies.setViewportSize({ width, height: 900 });
      await copies.setContent(await page.content());
      assert.deepEqual(await violations(copies), [], `${state} at ${width}, ${colorScheme}`);
    }
  }
}

const heading = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
const button = (name) => page.getByRole("button", { name });
const card = (keyId) => page.locator(".key", { hasText: keyId }).first();
const idOf = (key) => key.split("_")[2];

/** Opens a part of a key's card, with the keyboard. */
async function unfold(keyId, name) {
  await card(keyId).locator("summary", { hasText: name }).focus();
  await page.keyboard.press("Enter");
  await card(keyId).getByRole("button", { name }).waitFor();
}

/** What the page says was done is where a screen reader begins to read. */
async function assertAnnounced(role, title) {
  assert.match(await page.title(), title);
  // The browser moves the focus after it has shown the page.
  await page.locator(`[role="${role}"]:focus`).waitFor();
}

/** The key that the page shows. */
async function newKey() {
  await heading("Your new key");
  await assertAnnounced("status", /^Your new key/);
  return page.getByLabel("Your new key").textContent();
}

/** Reports a step, and waits until the test continues. */
async function step(done) {
  report(done);
  return nextLine();
}

try {
  await page.goto(`${service}/pricing`);
  await inspect("pricing");
  await button("Subscribe").click();
  await assertAnnounced("alert", /^Error: /);
  await inspect("pricing-error");
  await page.getByRole("radio", { name: "Standard" }).check();
  await page.getByLabel("Your e-mail address").fill(email);
  await button("Subscribe").click();
  await heading("Check your mailbox");
  assert.ok((await page.textContent("main")).includes(email));
  await inspect("subscribed");
  const link = await step({ subscribed: "Standard" });

  await page.goto(link);
  await heading("Confirm your subscription");
  await page.getByText("This was not me").click();
  await button("Erase my address").waitFor();
  await inspect("confirm");
  assert.deepEqual(await context.cookies(), []);
  // A double click: the response to the first press is never shown.
  await button("Confirm and sign in").dblclick();
  await heading("Your account");
  assert.equal(page.url(), `${service}/account`);
  await page.getByText("has to approve your subscription").waitFor();
  await inspect("awaiting-approval");
  const [cookie, ...others] = await context.cookies();
  assert.deepEqual(others, []);
  const { name, httpOnly, sameSite } = cookie;
  assert.deepEqual({ name, httpOnly, sameSite }, { name: "railbird", httpOnly: true, sameSite: "Strict" });
  await step({ confirmed: true });

  await page.goto(`${service}/account`);
  await page.getByText("You have no valid key").waitFor();
  await inspect("no-key");
  await page.getByLabel("Name of a new key").fill("odds board");
  await button("Create a key").dblclick();
  const first = await newKey();
  await inspect("new-key");
  await step({ key: first });

  await page.goto(`${service}/account`);
  const use = await page.locator(".uses").innerText();
  assert.match(use.replace(/\s+/g, " "), /Quota of a day [3-9] of 100,000 used 99,99\d left\. All are back: .* UTC\./);
  assert.match(use.replace(/\s+/g, " "), /Live connections 1 of 5 used 4 left\./);
  await page.getByText(/^Requests today \(UTC\), with all keys: [3-9]$/).waitFor();
  assert.match(await card(idOf(first)).innerText(), /Last used .* from 127\.0\.0\.0\/24/);
  await unfold(idOf(first), "Replace");
  await inspect("replace");
  await page.getByLabel("The old one stays valid for").selectOption("1 hour");
  await button(`Replace ${idOf(first)}`).click();
  const second = await newKey();
  assert.match(await card(idOf(first)).innerText(), /replaced, and still valid/);
  await inspect("replaced");
  await step({ key: second });

  await page.goto(link);
  await heading("This link does not work");
  await inspect("unknown-link");
  await page.getByRole("link", { name: "Your account" }).click();
  await page.getByLabel("Name of a new key").fill("results of the day, for the archive");
  await button("Create a key").click();
  const third = await newKey();
  await step({ key: third });

  await page.goto(`${service}/account`);
  await unfold(idOf(second), "Revoke");
  await inspect("revoke");
  await button(`Revoke ${idOf(second)}`).click();
  await page.getByText("Programs that use it are rejected.").waitFor();
  await assertAnnounced("status", new RegExp(`^Key ${idOf(second)} is revoked`));
  await page.getByText("Keys that have ended").click();
  await page.getByText("Delete the account").click();
  await inspect("revoked");
  await step({ revoked: true });

  await button("Delete my account").click();
  await heading("You have left");
  await inspect("left");
  assert.deepEqual(await context.cookies(), []);
  await step({ left: true });

  await page.goto(`${service}/account`);
  await heading("Sign in");
  await inspect("sign-in");
  await button("Send me a link").click();
  assert.match(await page.title(), /^Error: /);
  assert.equal(await page.evaluate(() => document.activeElement.id), "email");
  await inspect("sign-in-error");
  await page.getByLabel("Your e-mail address").fill(email);
  await button("Send me a link").click();
  await heading("Check your mailbox");
  await inspect("link-sent");
  report({ asked: true });

  assert.deepEqual(problems, []);
} finally {
  await browser.close();
  process.stdin.destroy();
}
