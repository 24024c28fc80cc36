// The docs: sends the request of a curl sample from the page, and shows the answer below it.

import { storedKey } from "./board/key.js";

/** Characters of an answer that are shown. */
const SHOWN_MAX = 20_000;

/** Adds a button to each sample of a request. That to a stream would not end. */
export function addRunButtons() {
  for (const frame of document.querySelectorAll('.samples [data-language="curl"] .code')) {
    const code = frame.querySelector("code").textContent;
    if (!frame.querySelector('[data-fill="http"]') || code.includes("/sse/")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Run";
    button.addEventListener("click", () => run(frame, button));
    frame.querySelector(".code-actions").prepend(button);
  }
}

async function run(frame, button) {
  const answer = frame.querySelector(".answer") ?? frame.appendChild(emptyAnswer());
  const code = frame.querySelector("code").textContent;
  const key = storedKey();
  if (code.includes("X-API-Key") && !key) {
    answer.textContent = "Enter your API key first.";
    document.querySelector("#key input").focus();
    return;
  }
  button.disabled = true;
  answer.textContent = await send(code, key).catch((error) => `The request failed: ${error.message}`);
  button.disabled = false;
  answer.focus();
}

/** What may scroll needs the focus of the keyboard. */
function emptyAnswer() {
  const answer = document.createElement("pre");
  answer.className = "answer";
  answer.tabIndex = 0;
  answer.setAttribute("role", "group");
  answer.setAttribute("aria-label", "Answer");
  return answer;
}

/** Sends the request of a curl command, and returns the answer as text. */
async function send(code, key) {
  const [url] = code.match(/https?:[^\s'"]+/);
  const accept = code.match(/Accept: ([^'"]+)/);
  const headers = {};
  if (accept) headers.Accept = accept[1];
  if (code.includes("X-API-Key")) headers["X-API-Key"] = key;
  const response = await fetch(url, { headers });
  return `${response.status} ${response.statusText}\n\n${await readable(response)}`;
}

/** The body as text, and of a file its size. */
async function readable(response) {
  const type = response.headers.get("content-type") ?? "";
  if (type.includes("parquet")) return `${(await response.blob()).size} bytes of ${type}`;
  const text = await response.text();
  const body = type.startsWith("application/json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  if (body.length <= SHOWN_MAX) return body;
  return `${body.slice(0, SHOWN_MAX)}\n… and ${body.length - SHOWN_MAX} more characters`;
}
