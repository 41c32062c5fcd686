// Elements from values. Everything that is shown goes through here as text: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** All that `morph` carries over. */
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onpointermove", "onpointerleave"];

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
    if (name.startsWith("on")) {
      if (!HANDLERS.includes(name)) throw new Error(`${name} is not among the handlers of dom.js`);
      element[name] = value;
    } else if (name === "style") Object.assign(element.style, value);
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

/** What finds an element again. Buttons of operations name the key that they are about, which is not theirs. */
const keyOf = ({ dataset }) => (dataset.do === undefined ? dataset.key : undefined);

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
  if (keyOf(shown) !== keyOf(wanted)) {
    shown.replaceWith(wanted);
    return wanted;
  }
  if (shown.dataset.keep !== undefined && shown.dataset.keep === wanted.dataset.keep) return shown;
  attributes(shown, wanted);
  children(shown, wanted);
  // What somebody has chosen is no attribute.
  if ((shown.type === "range" || shown.nodeName === "SELECT") && shown.value !== wanted.value) shown.value = wanted.value;
  return shown;
}

function attributes(shown, wanted) {
  for (const { name } of [...shown.attributes]) if (!wanted.hasAttribute(name)) shown.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (shown.getAttribute(name) === value) continue;
    // The content security policy forbids the attribute, not the property.
    if (name === "style") shown.style.cssText = value;
    else shown.setAttribute(name, value);
  }
  for (const name of HANDLERS) if (shown[name] !== wanted[name]) shown[name] = wanted[name];
}

function children(shown, wanted) {
  const byKey = new Map();
  const stays = new Set();
  for (const child of wanted.children) if (keyOf(child) !== undefined) stays.add(keyOf(child));
  for (const child of [...shown.children]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    // What goes makes room first, so that what stays is not moved: an element that moves loses the focus.
    if (stays.has(key)) byKey.set(key, child);
    else child.remove();
  }
  let place = shown.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = child.nodeType === Node.ELEMENT_NODE ? keyOf(child) : undefined;
    const known = byKey.get(key);
    // Each is found once: a second child of that key is another element.
    byKey.delete(key);
    if (known && known !== place) shown.insertBefore(known, place);
    const here = known || place;
    if (!here || !known && byKey.has(here.dataset && keyOf(here))) {
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
