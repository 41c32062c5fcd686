/** The HTTP API of `anabranch serve`: append, read, tail, enqueue, command, operate. */

import type { Event, Value } from "../index.js";

export interface ConnectOptions {
  /** So many seconds a request waits for its answer: 35. */
  timeout?: number;
  /**
   * So many seconds a request is sent again that gets no answer, or finds the server or its database away, if that cannot
   * do anything twice: 30.
   */
  retryFor?: number;
}

/** A client of the API at this URL. Nothing is sent before it is used. */
export declare function connect(url: string, token?: string | null, options?: ConnectOptions): Client;

/** An event of the log. `raw` and `data` are parsed; the texts are as they are stored. */
export interface StoredEvent<Data = any> extends Event<Data> {
  /** The whole event, as the server sent it. */
  readonly text: string;
  /** Its data byte for byte, with all digits. (From a tail, a line may end in another way between two tokens.) */
  readonly dataText: string;
  readonly metadataText: string;
  /** Whether data and metadata are kept from this token: they are `null` then. */
  readonly masked: boolean;
}

/** An event that is to be appended. */
export interface NewEvent {
  type: string;
  data?: Value;
  metadata?: object | null;
  tags?: readonly string[] | null;
  tenant?: string | null;
  customer?: string | null;
  correlation?: string | null;
  causation?: string | null;
  schemaVersion?: number | null;
  /** A UUID. Without it the idempotency key of the request gives it one. */
  id?: string | null;
  /** The W3C trace context of a span of your own. */
  traceparent?: string | null;
}

/** `"any"`, `"none"` (the stream has no events yet) or the version of its last event. */
export type Expected = "any" | "none" | number;

export interface AppendOptions {
  expected?: Expected;
  /** The client makes one by itself. Give one of your own if your program, too, may send the request again. */
  idempotencyKey?: string;
}

/** What one stream gets in an append to several. */
export interface ToStream {
  stream: string;
  events: NewEvent | readonly NewEvent[];
  expected?: Expected;
}

/** Events that match one of the items: one of its types (any, if there are none) and all of its tags. */
export type Query = readonly { types?: readonly string[]; tags?: readonly string[] }[];

export interface AppendAllOptions {
  /** It fails if an event that matches was stored after this position: the last one that was read, or 0. */
  unless?: { query: Query; after: number };
  idempotencyKey?: string;
}

/** What an append has stored, in the order in which it was given. */
export interface Appended {
  readonly events: readonly { readonly id: string; readonly version: number; readonly position: number }[];
  /** That of the last one. */
  readonly position: number;
}

/** One of the types, all of the tags, one of the categories, one of the tenants. */
export interface Wanted {
  types?: readonly string[];
  tags?: readonly string[];
  categories?: readonly string[];
  tenants?: readonly string[];
}

export interface PageOptions {
  backwards?: boolean;
  /** So many events at most; all, unless it is given. */
  limit?: number;
}

export interface ReadStreamOptions extends PageOptions {
  /** The version to begin with. */
  start?: number;
}

export interface ReadOptions extends Wanted, PageOptions {
  /** A position: events after it, or before it backwards. */
  after?: number;
}

export interface QueryOptions extends PageOptions {
  categories?: readonly string[];
  tenants?: readonly string[];
  /** A position: events after it, or before it backwards. */
  after?: number;
}

export interface TailOptions extends Wanted {
  /** Events after this position (0 is the beginning); from now on, unless it is given. */
  after?: number;
  /** After so many seconds without a word the connection counts as lost: 45. */
  silence?: number;
  /** Is told each time that the tail has to connect again, and why. */
  onInterrupted?: (error: ApiError) => void;
}

/**
 * Events as they are stored. It connects again by itself and goes on where it was. It ends when it is closed, also by
 * leaving a `for await`.
 */
export interface Tail<Data = any> extends AsyncIterableIterator<StoredEvent<Data>> {
  /** The place up to which all was handed out. Begin there (`after`) to go on later, in another process. */
  readonly position: number | null;
  /** Whether all that was there had been handed out at some time. */
  readonly caughtUp: boolean;
  /** Waits until the tail stands in the log, and says where: events that are stored from now on will come. */
  open(): Promise<number>;
  close(): void;
}

export interface EnqueueOptions {
  /** Seconds. */
  after?: number;
  at?: Date | string;
  /** At most one open task has it. */
  unique?: string;
  id?: string;
  idempotencyKey?: string;
}

/** A task that is stored, and waits for a worker. */
export interface Enqueued {
  readonly id: string;
  /** Whether it was not there before. */
  readonly isNew: boolean;
}

/** How a task stands. */
export interface TaskStatus<Result = any> {
  readonly id: string;
  readonly pool: string;
  readonly key: string;
  readonly state: "ready" | "scheduled" | "held" | "done" | "dead" | "compensated" | "skipped" | "cancelled";
  /** Whether it may still be run. */
  readonly isOpen: boolean;
  readonly attempts: number;
  /** What its handler returned, once it is `done`. */
  readonly result: Result | null;
  /** Why its last attempt failed. */
  readonly error: string | null;
  /** Whether results are kept from this token. */
  readonly masked: boolean;
  /** All that the server says. */
  readonly raw: Readonly<Record<string, any>>;
}

export interface CommandOptions {
  /** Which command it is: under the same id it is carried out once. */
  id?: string;
  idempotencyKey?: string;
}

/** A command that is stored, and waits for a worker that has the code. */
export interface SentCommand {
  readonly commandId: string;
  /** The task that carries it out. */
  readonly id: string;
  readonly isNew: boolean;
}

/** A command that was carried out. */
export interface CommandDone {
  /** How many events came of it. */
  readonly events: number;
  /** What the stream of the instance stands at. */
  readonly version: number;
}

/** What somebody wants to do: `{ do: "pause", consumer: "totals" }`. */
export interface Operation {
  do: string;
  [more: string]: Value;
}

/** What an operation would do; once it is applied, how far it is. */
export interface Plan {
  readonly id: string;
  /** What it would do, in one sentence. */
  readonly says: string;
  /** What it would do, counted. */
  readonly counts: Readonly<Record<string, number>>;
  readonly state: "open" | "running" | "done" | "failed" | "cancelled";
  /** Why it could not be carried out to its end. */
  readonly problem: string | null;
  /** All that the server says. */
  readonly raw: Readonly<Record<string, any>>;
}

export interface JournalOptions {
  /** Only about this consumer, pool or task. */
  target?: string;
  plan?: string | Plan;
  limit?: number;
}

/** A client of the API. `connect` makes one. */
export declare class Client {
  private constructor();
  /**
   * Appends events to one stream, all or none. A request that was not answered is sent again under its idempotency key,
   * so what it appends is there once.
   */
  append(stream: string, events: NewEvent | readonly NewEvent[], options?: AppendOptions): Promise<Appended>;
  /** Appends to several streams, all or none, and only if nothing was stored that `unless` names. */
  appendAll(streams: readonly ToStream[], options?: AppendAllOptions): Promise<Appended>;
  /** The events of a stream, page by page. */
  readStream<Data = any>(stream: string, options?: ReadStreamOptions): AsyncGenerator<StoredEvent<Data>, void, undefined>;
  /** The events of the log that are wanted, page by page. */
  read<Data = any>(options?: ReadOptions): AsyncGenerator<StoredEvent<Data>, void, undefined>;
  /** The events of the log that match one item of the query, page by page. */
  query<Data = any>(query: Query, options?: QueryOptions): AsyncGenerator<StoredEvent<Data>, void, undefined>;
  /** One event, by its position or its id. */
  event<Data = any>(which: number | string): Promise<StoredEvent<Data>>;
  /** Events as they are stored: after a position, or from now on. What will not pass by itself is thrown. */
  tail<Data = any>(options?: TailOptions): Tail<Data>;
  /** Enqueues a task. */
  enqueue(pool: string, key: string, payload?: Value, options?: EnqueueOptions): Promise<Enqueued>;
  /** All that is kept of a task. */
  task<Result = any>(id: string): Promise<TaskStatus<Result>>;
  /** Waits until a task has ended, well or not: see its `state`. After so many seconds, `StillOpen`. */
  wait<Result = any>(task: string | Enqueued | SentCommand, options?: { timeout?: number }): Promise<TaskStatus<Result>>;
  /** Sends a command to an instance of a workflow. */
  sendCommand(workflow: string, instance: string, command: Value, options?: CommandOptions): Promise<SentCommand>;
  /** Waits until a command is carried out. `CommandRefused` says that it was not, and why. */
  waitForCommand(sent: SentCommand, options?: { timeout?: number }): Promise<CommandDone>;
  /**
   * What an operation would do, counted. Nothing is changed. Those about many things need a filter (`where` for tasks), or
   * `all: true`.
   */
  plan(operation: Operation): Promise<Plan>;
  /** A plan, and how far it is. */
  showPlan(plan: string | Plan): Promise<Plan>;
  /**
   * Applies a plan. One that goes step by step may be `running` still: `waitForPlan` waits for its end. It is not sent
   * again by itself: after `NoAnswer` see what `showPlan` says.
   */
  apply(plan: string | Plan): Promise<Plan>;
  /**
   * Waits until a plan is not running any more: see its `state`. After so many seconds, `StillRunning`; it goes on without
   * you. One that nobody has applied is `open`, and not waited for.
   */
  waitForPlan(plan: string | Plan, options?: { timeout?: number }): Promise<Plan>;
  /** Cancels a plan; what was done until then stays. */
  cancel(plan: string | Plan): Promise<Plan>;
  /** Who did what, the newest first, page by page. */
  journal(options?: JournalOptions): AsyncGenerator<Record<string, any>, void, undefined>;
}

/** What the client throws, whatever it is. */
export declare class ApiError extends Error {}

/** The server refused, and says why. Its subclasses tell the kinds apart. */
export declare class Problem extends ApiError {
  readonly status: number;
  /** Stable: one of docs/errors.md. `http_502` and the like, if not the server but a proxy answered. */
  readonly code: string;
  readonly title: string;
  /** In a sentence or two. */
  readonly detail: string;
  /** What else the server says, such as `stream`, `expected` and `actual` of a conflict. */
  readonly members: Readonly<Record<string, any>>;
  /** In so many seconds it may be tried again. */
  readonly retryAfter: number | null;
}

/** The request cannot be understood or carried out as it is. */
export declare class Invalid extends Problem {}
/** There is no token, or it is not good any more. */
export declare class NotAuthenticated extends Problem {}
/** The token may not do this. */
export declare class NotAllowed extends Problem {}
/** There is no such thing, or not for this token. */
export declare class NotFound extends Problem {}
/** It is not so any more as the request expects: `stream_conflict`, `condition_failed`, `plan_outdated`. */
export declare class Conflict extends Problem {}
/** Not now: the server or its database is away, or has too much to do. */
export declare class Unavailable extends Problem {}

/** No answer came, or half of one; or the server, or a proxy, did not wait for it any longer. */
export declare class NoAnswer extends ApiError {
  /** False if the request was certainly not carried out. */
  readonly mayHaveHappened: boolean;
  /** With this key the same request can be sent again: it is carried out once. */
  readonly idempotencyKey: string | null;
}

/** The server has ended a tail with a word, such as `too_slow` or `server_stops`. */
export declare class Dropped extends NoAnswer {
  readonly reason: string;
}

/** What answers there is not the API, or cannot prove who it is. */
export declare class NotTheApi extends ApiError {}

/** The task has not ended in the time that was given to it. */
export declare class StillOpen extends ApiError {
  /** How it stands. */
  readonly task: TaskStatus;
}

/** The plan is not carried out in the time that was given to it. It goes on. */
export declare class StillRunning extends ApiError {
  /** How far it is. */
  readonly plan: Plan;
}

/** A command was not carried out. */
export declare class CommandRefused extends ApiError {
  /** `rejected` by the workflow, `unreadable` for it, `cancelled`; or how its task ended. */
  readonly outcome: string;
  readonly why: string | null;
}
