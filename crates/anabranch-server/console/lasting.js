// Parts of a page that look after themselves, and must not be built anew with it.

import { h } from "./dom.js";

export class Lasting {
  #turn = 0;

  /** `element` is shown as long as the page draws it; `name` differs from those of other parts. */
  constructor(name, element) {
    this.name = name;
    this.element = element;
  }

  /** What a page draws: the element, or a mark for it while it is in the document already. */
  node() {
    const { element } = this;
    if (element.isConnected) return h(element.localName, { "data-key": element.dataset.key, "data-keep": "lasting" });
    // Another key each time: a mark of the last time must not be taken for it.
    this.#turn += 1;
    element.dataset.key = `${this.name} ${this.#turn}`;
    element.dataset.keep = "lasting";
    return element;
  }
}
