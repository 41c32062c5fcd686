// Elements from values. Everything that is shown goes through here as text: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Properties that begin with `on` are handlers, `class` and the rest are attributes. */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/** The same for pictures. */
export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave"];

/**
 * Makes what is shown equal to `wanted`, and leaves alone what is equal already: focus, selection and scrolling stay.
 * What has `data-keep` looks after itself; children with `data-key` are found by it.
 */
export function morph(shown, wanted) {
  if (shown.nodeType !== wanted.nodeType || shown.nodeName !== wanted.nodeName) {
    shown.replaceWith(wanted);
    return wanted;
  }
  if (shown.nodeType !== Node.ELEMENT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return shown;
  }
  if (shown.dataset.key !== wanted.dataset.key) {
    shown.replaceWith(wanted);
    return wanted;
  }
  if (shown.dataset.keep !== undefined && shown.dataset.keep === wanted.dataset.keep) return shown;
  attributes(shown, wanted);
  children(shown, wanted);
  return shown;
}

function attributes(shown, wanted) {
  for (const { name } of [...shown.attributes]) if (!wanted.hasAttribute(name)) shown.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const name of HANDLERS) if (shown[name] !== wanted[name]) shown[name] = wanted[name];
}

function children(shown, wanted) {
  const byKey = new Map();
  const stays = new Set();
  for (const child of wanted.children) if (child.dataset.key !== undefined) stays.add(child.dataset.key);
  for (const child of [...shown.children]) {
    const key = child.dataset.key;
    if (key === undefined) continue;
    // What goes makes room first, so that what stays is not moved: an element that moves loses the focus.
    if (stays.has(key)) byKey.set(key, child);
    else child.remove();
  }
  let place = shown.firstChild;
  for (const child of [...wanted.childNodes]) {
    const known = child.nodeType === Node.ELEMENT_NODE && byKey.get(child.dataset.key);
    if (known && known !== place) shown.insertBefore(known, place);
    const here = known || place;
    if (!here || !known && byKey.has(here.dataset?.key)) {
      shown.insertBefore(child, here);
      continue;
    }
    const next = known && known !== place ? place : here.nextSibling;
    morph(here, child);
    place = next;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
