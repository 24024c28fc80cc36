// Loads what is in `views/` when it is needed, with its style: the first page does without.

import { ApiError } from "./api.js";
import { element } from "./dom.js";

let style = null;

function loadStyle() {
  const link = element("link", { rel: "stylesheet", href: new URL("../views/views.css", import.meta.url) });
  document.head.append(link);
  return new Promise((resolve, reject) => {
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => reject(new TypeError("no style")));
  });
}

/** Loads a module of `views/`. Throws an [`ApiError`] if the service cannot be reached. */
export async function load(name) {
  style ??= loadStyle();
  try {
    const [module] = await Promise.all([import(`../views/${name}.js`), style]);
    return module;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    style = null;
    throw new ApiError(0, "unreachable", "The service cannot be reached");
  }
}
