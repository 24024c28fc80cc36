// The form for requests: Swagger UI with the document, the address and the key of this service.

import { storedKey } from "./board/key.js";
// It may ask for the key, and is done when it has one.
import "./docs.js";

const ROOT = new URL("..", import.meta.url);

/** The name of the scheme that is an API key in a header. */
function keyScheme(spec) {
  const schemes = Object.entries(spec.components.securitySchemes);
  return schemes.find(([, scheme]) => scheme.type === "apiKey" && scheme.in === "header")[0];
}

/** Names the buttons of Swagger UI that have no text, and lets the keyboard scroll its answers. */
function improve(container) {
  for (const button of container.querySelectorAll(".copy-to-clipboard button:not([aria-label])")) {
    button.setAttribute("aria-label", "Copy");
  }
  for (const block of container.querySelectorAll("pre.microlight:not([tabindex])")) block.tabIndex = 0;
}

/** Swagger UI has a dark mode, which a page has to choose. */
function followScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
}

followScheme();
const container = document.querySelector("#try");
new MutationObserver(() => improve(container)).observe(container, { childList: true, subtree: true });
const text = await (await fetch(new URL("openapi.json", ROOT))).text();
// The links of descriptions begin at the root of the service.
const spec = JSON.parse(text.replaceAll("](/", `](${ROOT.pathname}`));
// Its response does not end: the form would show nothing of it.
delete spec.paths["/sse/live/odds"];
// The document cannot know where this service is reached.
spec.servers = [{ url: ROOT.href.replace(/\/$/, "") }];
// Swagger UI is no module: its file defines a global.
const form = window.SwaggerUIBundle({
  spec,
  domNode: container,
  // Its links would be controls within controls, which keyboards and screen readers cannot tell apart.
  deepLinking: false,
  // The reference has the schemas.
  defaultModelsExpandDepth: -1,
  // Else it would show a badge from another host.
  validatorUrl: null,
  onComplete: () => {
    const key = storedKey();
    if (key) form.preauthorizeApiKey(keyScheme(spec), key);
  },
});
