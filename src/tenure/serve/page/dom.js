// How this page writes: text nodes and attributes, never markup. Names of elections and holders are written by strangers.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  return fill(document.createElement(tag), options, children);
}

export function draw(tag, options = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), options, children);
}

function fill(element, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Touches the document only if there is something to say: a text that is set anew is laid out anew, and read out anew.
export function say(element, text) {
  const node = element.firstChild;
  if (node === null) element.append(text);
  else if (node.data !== text) node.data = text;
}

// A long name is broken where people would break it: behind what parts it, and where a capital letter begins a word. What is copied is
// the name alone.
export function broken(text) {
  return text.split(/(?<=[/.:_@-])(?=[^/.:_@-])|(?<=\p{Ll})(?=\p{Lu})/u).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

export function sayBroken(element, text) {
  if (element.textContent !== text) element.replaceChildren(...broken(text));
}

export function mark(element, name, value) {
  if (value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}
