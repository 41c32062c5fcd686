/** Handlers without a database: hand them events, look at what they answer. */

import type { BatchHandler, EventHandler, TaskHandler, Value } from "./index.js";

export interface RehearseOptions {
  /** Answers a query, given its text and its values, with rows by column names. */
  answer?: (sql: string, values: any[]) => Record<string, any>[] | Promise<Record<string, any>[]>;
  /** `sqlite` unless told. */
  database?: string;
}

export interface RehearseTaskOptions extends RehearseOptions {
  key?: string;
  attempt?: number;
  checkpoint?: Value;
}

/** An event as Anabranch hands it over. `more` are its other fields, such as `stream`, `customer` and `tags`. */
export declare function event(type: string, data?: Value, more?: Record<string, Value>): Record<string, any>;

/** What the handler answers to these events, as messages. What it throws is thrown. */
export declare function rehearse(
  handle: EventHandler | { batch: BatchHandler },
  events: Record<string, any>[],
  options?: RehearseOptions,
): Promise<any[]>;

/** What the handler answers to a task. The last message is `done`, with the result. */
export declare function rehearseTask(
  handle: TaskHandler,
  payload?: Value,
  options?: RehearseTaskOptions,
): Promise<any[]>;
