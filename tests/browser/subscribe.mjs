// Subscribes in a browser without JavaScript, then replaces the key and revokes it.
//
//     node subscribe.mjs http://127.0.0.1:8080 a@racing.example
//
// RAILBIRD_BROWSER is the path of the browser. Each completed step is printed as a line of JSON. The link of the mail,
// and a line to continue, are read from standard input.

import assert from "node:assert/strict";
import { launch, nextLine, report, watch } from "./browser.mjs";

const [service, email] = process.argv.slice(2);

const browser = await launch();
try {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const problems = watch(page, service);

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
