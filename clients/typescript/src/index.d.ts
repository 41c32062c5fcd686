/** Handlers for Anabranch: exactly once, in order, in the transaction of the cursor. */

/** What a statement and the data of events and tasks may have. Other objects are JSON. */
export type Value = null | boolean | number | bigint | string | Date | Decimal | object;

/** A number with more digits than a `number` has, or one that must keep its digits: `new Decimal("19.90")`. */
export declare class Decimal {
  constructor(text: string);
  /** Its digits, for a library of decimals. */
  toString(): string;
  toJSON(): string;
}

/** An event of the log. */
export interface Event<Data = any> {
  /** Its place in the log. */
  readonly position: number;
  /** `Order:ord-1` */
  readonly stream: string;
  /** `Order` of `Order:ord-1` */
  readonly category: string;
  /** `ord-1` of `Order:ord-1` */
  readonly streamId: string;
  /** Its place in its stream, from 1. */
  readonly version: number;
  /** A UUID. */
  readonly id: string;
  readonly type: string;
  readonly schemaVersion: number;
  readonly data: Data;
  readonly metadata: any;
  readonly correlation: string | null;
  readonly causation: string | null;
  readonly tenant: string | null;
  readonly customer: string | null;
  /** The W3C trace context of its append, if that was traced. */
  readonly traceparent: string | null;
  readonly tags: readonly string[];
  /** When it was appended, in UTC: `2026-11-15T09:16:47.445123Z`. (A `Date` has no microseconds.) */
  readonly recordedAt: string;
  /** Its place in the batch, from 0. */
  readonly place: number;
  /** The whole event, as `anabranch tail --json` prints it. */
  readonly raw: Readonly<Record<string, any>>;
}

/** A row of a query, by names and by places: `row.total`, `row[0]`, `const [total, count] = row`. */
export type Row<Columns = Record<string, any>> = Columns & { readonly [place: number]: any } & Iterable<any>;

export interface AppendOptions {
  /** `"any"`, `"none"` or the version that the stream has. */
  expected?: "any" | "none" | number;
  schemaVersion?: number;
  metadata?: Value;
  correlation?: string;
  causation?: string;
  tenant?: string;
  customer?: string;
  tags?: readonly string[];
  id?: string;
  /** The W3C trace context of a span of your own. Without it the trace of the event that it is for goes on. */
  traceparent?: string;
}

export interface EnqueueOptions {
  /** Seconds. */
  after?: number;
  at?: Date | string;
  /** At most one open task has it. */
  unique?: string;
  id?: string;
  /** The W3C trace context of a span of your own. Without it the trace of the event that it is for goes on. */
  traceparent?: string;
}

/** The transaction of a batch. What is asked for here is stored together with the cursor, or not at all. */
export interface Tx {
  /** `sqlite` or `postgres`. */
  readonly database: string;
  readonly consumer: string;
  /** Executes a statement with `$1`, `$2`, … for its values, which are passed one by one. */
  execute(sql: string, ...values: Value[]): void;
  /** The rows of a query. It sees what was executed before it. */
  query<Columns = Record<string, any>>(sql: string, ...values: Value[]): Promise<Row<Columns>[]>;
  /** The first row of a query, if there is one. */
  queryFirst<Columns = Record<string, any>>(sql: string, ...values: Value[]): Promise<Row<Columns> | undefined>;
  /** Appends an event to the log. */
  append(stream: string, type: string, data?: Value, options?: AppendOptions): void;
  /** Enqueues a task. */
  enqueue(pool: string, key: string, payload?: Value, options?: EnqueueOptions): void;
  /** In a handler of whole batches: the same transaction, for what is about this event. */
  forEvent(event: Event): Tx;
}

/** A task of a pool. */
export interface Task<Payload = any, Checkpoint = any> {
  /** A UUID. */
  readonly id: string;
  /** Tasks of one key are done in order. */
  readonly key: string;
  readonly payload: Payload;
  /** From 1. */
  readonly attempt: number;
  /** The same in each attempt. Pass it on to the service that you call. */
  readonly idempotencyKey: string;
  /** What was saved last, in this attempt or in an earlier one. */
  readonly checkpoint: Checkpoint | null;
  /** The W3C trace context in which it is run, if it is traced. Pass it on to the service that you call. */
  readonly traceparent: string | null;
  readonly raw: Readonly<Record<string, any>>;
  /** Stores a checkpoint at once: the next attempt finds it. */
  save(checkpoint: Checkpoint): Promise<void>;
}

export type EventHandler<Data = any> = (event: Event<Data>, tx: Tx) => void | Promise<void>;
export type BatchHandler<Data = any> = (events: Event<Data>[], tx: Tx) => void | Promise<void>;
export type TaskHandler<Payload = any, Checkpoint = any> = (task: Task<Payload, Checkpoint>, tx: Tx) => unknown;

/** Handles events until Anabranch closes standard input: one at a time, or all of a batch. */
export declare function run(handle: EventHandler | { batch: BatchHandler }): Promise<void>;

/** Handles tasks until Anabranch closes standard input. What the handler returns is kept with the task. */
export declare function runTasks(handle: TaskHandler): Promise<void>;

/** Fails the event or the task with this text. */
export declare class Failed extends Error {
  /**
   * `again: false`: it is not tried again. `again: 2.5`: not before that many seconds have passed. Otherwise the retry
   * policy decides. A handler of whole batches names the event that failed.
   */
  constructor(message: string, options?: { again?: boolean | number; event?: Event; cause?: unknown });
  readonly again: boolean | number;
  readonly event: Event | undefined;
}

/** The database has refused a statement or the transaction is lost: this batch is over. Let it pass. */
export declare class Abandoned extends Error {}
