// Subscribes in a browser without JavaScript, then replaces the key and revokes it.
//
//     node subscribe.mjs http://127.0.0.1:8080 a@racing.example
//
// RAILBIRD_BROWSER is the path of the browser. Each completed step is printed as a line of JSON. The link of the mail, and a line to
// continue, are read from standard input.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [service, email] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async () => (await lines.next()).value;
const report = (done) => console.log(JSON.stringify(done));

const browser = await chromium.launch({
  executablePath: process.env.RAILBIRD_BROWSER,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-zygote",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
try {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => problems.push(message.text()));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service) && !url.startsWith("data:")) problems.push(`requested ${url}`);
  });

  await page.goto(`${service}/pricing`);
  await page.getByRole("radio", { name: "Standard" }).check();
  await page.getByLabel("Your e-mail address").fill(email);
  await page.getByRole("button", { name: "Send me a key" }).click();
  await page.getByRole("heading", { name: "Thank you" }).waitFor();
  assert.ok((await page.textContent("main")).includes(email));
  report({ subscribed: "Standard" });

  const link = await nextLine();
  await page.goto(link);
  // A double click: the response to the first press is never shown.
  await page.getByRole("button", { name: "Replace it" }).dblclick();
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  report({ key: await page.getByLabel("Your new key").textContent() });

  await nextLine();
  await page.goto(link);
  const revoke = page.getByRole("button", { name: "Yes, revoke it now" });
  assert.ok(!(await revoke.first().isVisible()), "it asks first");
  await page.getByText("Revoke it", { exact: true }).first().click();
  await revoke.first().click();
  await page.getByText("It is revoked.").waitFor();
  report({ revoked: true });

  assert.deepEqual(problems, []);
  assert.deepEqual(await context.cookies(), []);
} finally {
  await browser.close();
  process.stdin.destroy();
}
