// A number whose thousands stand apart to the eye only: copied or read by a program it is plain.

import { h } from "./dom.js";

export function digits(value) {
  const text = String(value);
  const first = text.length % 3 || 3;
  const groups = [text.slice(0, first), ...(text.slice(first).match(/\d{3}/g) ?? [])];
  return groups.map((group, index) => (index === 0 ? group : h("span", { class: "thousand" }, group)));
}
