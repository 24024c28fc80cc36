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

/** Sets the text of an element that has nothing but text, if it differs. Returns whether it did. */
export function setText(node, text) {
  const old = node.firstChild;
  if (old === null) node.append(text);
  else if (old.data !== text) old.data = text;
  else return false;
  return true;
}

/** Sets an attribute if it differs; `null` removes it. */
export function setAttribute(node, name, value) {
  if (node.getAttribute(name) === value) return;
  if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}
