// A person in a browser without JavaScript, who asks for a key, replaces it and revokes it.
//
//     node subscribe.mjs http://127.0.0.1:8080 a@racing.example
//
// RAILBIRD_BROWSER names the browser. What was done is printed as a line of JSON each; where the link in the mail leads, and when to go on,
// is read from standard input, a line each.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [service, email] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const told = async () => (await lines.next()).value;
const say = (done) => console.log(JSON.stringify(done));

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
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service) && !url.startsWith("data:")) complaints.push(`asked for ${url}`);
  });

  await page.goto(`${service}/pricing`);
  await page.getByRole("radio", { name: "Standard" }).check();
  await page.getByLabel("Your e-mail address").fill(email);
  await page.getByRole("button", { name: "Send me a key" }).click();
  await page.getByRole("heading", { name: "Thank you" }).waitFor();
  assert.ok((await page.textContent("main")).includes(email));
  say({ subscribed: "Standard" });

  const link = await told();
  await page.goto(link);
  // As an impatient person does: the answer to the first press is never seen.
  await page.getByRole("button", { name: "Replace it" }).dblclick();
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  say({ key: await page.getByLabel("Your new key").textContent() });

  await told();
  await page.goto(link);
  const revoke = page.getByRole("button", { name: "Yes, revoke it now" });
  assert.ok(!(await revoke.first().isVisible()), "it asks first");
  await page.getByText("Revoke it", { exact: true }).first().click();
  await revoke.first().click();
  await page.getByText("It is revoked.").waitFor();
  say({ revoked: true });

  assert.deepEqual(complaints, []);
  assert.deepEqual(await context.cookies(), []);
} finally {
  await browser.close();
  process.stdin.destroy();
}
