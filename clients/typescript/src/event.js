/** Events, tasks and rows as handlers see them. */

export class Event {
  /**
   * @param {Record<string, any>} raw
   * @param {number} place
   */
  constructor(raw, place) {
    this.raw = raw;
    this.place = place;
  }

  /** @returns {number} */
  get position() {
    return this.raw.position;
  }

  /** @returns {string} */
  get stream() {
    return this.raw.stream;
  }

  get category() {
    return this.stream.slice(0, this.stream.indexOf(":"));
  }

  get streamId() {
    return this.stream.slice(this.stream.indexOf(":") + 1);
  }

  /** @returns {number} */
  get version() {
    return this.raw.version;
  }

  /** @returns {string} */
  get id() {
    return this.raw.id;
  }

  /** @returns {string} */
  get type() {
    return this.raw.type;
  }

  /** @returns {number} */
  get schemaVersion() {
    return this.raw.schema_version ?? 1;
  }

  get data() {
    return this.raw.data;
  }

  get metadata() {
    return this.raw.metadata ?? null;
  }

  /** @returns {string | null} */
  get correlation() {
    return this.raw.correlation ?? null;
  }

  /** @returns {string | null} */
  get causation() {
    return this.raw.causation ?? null;
  }

  /** @returns {string | null} */
  get tenant() {
    return this.raw.tenant ?? null;
  }

  /** @returns {string | null} */
  get customer() {
    return this.raw.customer ?? null;
  }

  /** @returns {string | null} */
  get traceparent() {
    return this.raw.traceparent ?? null;
  }

  /** @returns {readonly string[]} */
  get tags() {
    return this.raw.tags ?? [];
  }

  /** @returns {string} */
  get recordedAt() {
    return this.raw.recorded_at;
  }
}

export class Task {
  #save;

  /**
   * @param {Record<string, any>} raw
   * @param {(checkpoint: unknown) => Promise<void>} save
   */
  constructor(raw, save) {
    this.raw = raw;
    this.#save = save;
  }

  /** @returns {string} */
  get id() {
    return this.raw.id;
  }

  /** @returns {string} */
  get key() {
    return this.raw.key;
  }

  get payload() {
    return this.raw.payload;
  }

  /** @returns {number} */
  get attempt() {
    return this.raw.attempt;
  }

  /** @returns {string} */
  get idempotencyKey() {
    return this.raw.idempotency_key;
  }

  get checkpoint() {
    return this.raw.checkpoint ?? null;
  }

  /** @returns {string | null} */
  get traceparent() {
    return this.raw.traceparent ?? null;
  }

  /** @param {unknown} checkpoint */
  async save(checkpoint) {
    await this.#save(checkpoint);
    this.raw.checkpoint = checkpoint;
  }
}

/** A row: its columns are its properties, and its places those of its prototype. */
class Row {
  /** @type {unknown[]} */
  #values;

  /**
   * @param {unknown[]} values
   * @param {string[]} columns
   */
  constructor(values, columns) {
    this.#values = values;
    columns.forEach((name, place) => {
      if (Object.hasOwn(this, name)) return;
      // Not assigned: a column may have the name of something that the prototype has.
      const property = { value: values[place], writable: true, enumerable: true, configurable: true };
      Object.defineProperty(this, name, property);
    });
  }

  /** @param {number} place */
  static at(place) {
    if (Object.hasOwn(Row.prototype, place)) return;
    /** @this {Row} */
    function get() {
      return this.#values[place];
    }
    Object.defineProperty(Row.prototype, place, { get });
  }

  [Symbol.iterator]() {
    return this.#values[Symbol.iterator]();
  }
}

/**
 * @param {{columns: string[], rows: unknown[][]}} answer
 * @returns {any[]}
 */
export function rows({ columns, rows }) {
  columns.forEach((_, place) => Row.at(place));
  return rows.map((values) => new Row(values, columns));
}
