// Elements of the page.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an HTML element: `element("a", { href: "#/" }, "text", child)`. Attributes that are false are left out. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Creates an SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** From one text to another, `10.0 to 7.3`, with an arrow that is of the style: not every font has one. */
export function fromTo(from, to) {
  return element("span", { class: "from-to" }, from, element("span", {}, " to "), to);
}

/** What may be wider than the page: it is scrolled by itself, also with the keyboard. */
export function wide(name, child) {
  return element("div", { class: "wide", role: "region", "aria-label": name, tabindex: "0" }, child);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== false && child !== "" && child !== undefined && child !== null));
  return node;
}

/**
 * A part of the page that is read once it is opened: `load()` resolves to its view, with an `element`. Returns the
 * `element` of the part, and its `view` once it is there.
 */
export function onDemand(kind, title, load) {
  const body = element("div", {}, "It is being read.");
  const part = { element: element("details", { class: kind }, element("summary", {}, title), body), view: null };
  let isLoading = false;
  part.element.addEventListener("toggle", async () => {
    if (!part.element.open || isLoading || part.view) return;
    isLoading = true;
    try {
      part.view = await load();
      body.replaceChildren(part.view.element);
    } catch {
      body.replaceChildren("It could not be read. Close it, and open it again.");
    }
    isLoading = false;
  });
  return part;
}

/** Sets the text of an element that has nothing but text, if it differs. Returns whether it did. */
export function setText(node, text) {
  const old = node.firstChild;
  if (old === null) node.append(text);
  else if (old.data !== text) old.data = text;
  else return false;
  return true;
}

/**
 * Gives an element these children, and moves none that has its place. What has the focus keeps it. Where it is gone,
 * the link to the same address gets it, or else the first one.
 */
export function arrange(parent, ...children) {
  const focused = document.activeElement;
  const hasFocus = parent.contains(focused);
  for (const child of [...parent.children]) if (!children.includes(child)) child.remove();
  for (const [index, child] of children.entries()) {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  }
  if (!hasFocus || document.activeElement === focused) return;
  const others = [...parent.querySelectorAll("a, button, summary")];
  const isSame = (other) => other.getAttribute("href") === focused.getAttribute("href");
  const next = focused.isConnected ? focused : (others.find(isSame) ?? others[0]);
  next?.focus({ preventScroll: true });
}

/** Sets an attribute if it differs; `null` removes it. */
export function setAttribute(node, name, value) {
  if (node.getAttribute(name) === value) return;
  if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}
