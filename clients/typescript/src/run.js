/** `run` and `runTasks`: the conversation with Anabranch. */

import { isatty } from "node:tty";
import { inspect } from "node:util";
import { Abandoned, EngineGone, Failed, ProtocolError, failure, log } from "./errors.js";
import { Event, Task } from "./event.js";
import { Pipes } from "./pipes.js";
import { Batch, Tx } from "./tx.js";
import { encode } from "./values.js";

const PROTOCOL = 1;
const CLIENT = "anabranch-typescript 0.1.0";
/** So long the program may take to end when its input has ended; it is killed after 10 s. */
const END_WITHIN_MS = 2000;

/**
 * Handles what came with a batch, and answers what `done` says beside the number. `at` learns which event it is at.
 *
 * @typedef {(message: any, batch: Batch, at: {event: number | undefined}) => Promise<string>} Work
 */

/** @param {import("./index.js").EventHandler | {batch: import("./index.js").BatchHandler}} handle */
export async function run(handle) {
  await converse(eventWork(handle));
}

/** @param {import("./index.js").TaskHandler} handle */
export async function runTasks(handle) {
  await converse(taskWork(handle));
}

/**
 * @param {any} handle
 * @param {string} what
 */
function checked(handle, what) {
  if (typeof handle !== "function") {
    throw new TypeError(`the handler is a function of (${what}, tx), not ${inspect(handle)}`);
  }
  if (handle.constructor.name.endsWith("GeneratorFunction")) {
    throw new TypeError("the handler is a generator, and would do nothing when it is called");
  }
  return handle;
}

/**
 * @param {any} handle
 * @returns {Work}
 */
export function eventWork(handle) {
  if (handle !== null && typeof handle === "object" && "batch" in handle) {
    const handleBatch = checked(handle.batch, "events");
    return async (message, batch) => {
      const events = given(message, "events", "run").map((raw, place) => new Event(raw, place));
      mustBeNothing(await handleBatch(events, new Tx(batch)));
      return "";
    };
  }
  checked(handle, "event");
  return async (message, batch, at) => {
    for (const [place, raw] of given(message, "events", "run").entries()) {
      at.event = place;
      const tx = new Tx(batch, place);
      const returned = await handle(new Event(raw, place), tx);
      tx.close();
      mustBeNothing(returned);
      if (batch.isAsking) throw new Error("the handler has returned before its query was answered: await tx.query(…)");
      if (batch.over !== undefined) break; // The handler caught what it should have let pass.
    }
    return "";
  };
}

/** @param {unknown} returned */
function mustBeNothing(returned) {
  if (returned === undefined || returned === null) return;
  throw new TypeError("a handler of events returns nothing; answers are given by tx");
}

/**
 * @param {any} handle
 * @returns {Work}
 */
export function taskWork(handle) {
  checked(handle, "task");
  return async (message, batch, at) => {
    const tasks = given(message, "tasks", "runTasks");
    if (tasks.length !== 1) throw new ProtocolError(`one task at a time was expected, not ${tasks.length}`);
    at.event = 0;
    const tx = new Tx(batch, 0);
    const result = await handle(new Task(tasks[0], (checkpoint) => tx.save(checkpoint)), tx);
    tx.close();
    return result === undefined || result === null ? "" : `,"result":${encode(result)}`;
  };
}

/**
 * @param {any} message
 * @param {string} what
 * @param {string} name
 * @returns {any[]}
 */
function given(message, what, name) {
  if (Array.isArray(message[what])) return message[what];
  const others = Object.keys(message).filter((key) => key !== "batch");
  throw new Failed(`this program handles ${what} (it calls ${name}), and was given ${others}`, { again: false });
}

/** @param {Work} work */
async function converse(work) {
  // `process.stdin` would take hold of the descriptor.
  if (isatty(0)) {
    log("This program is started by Anabranch (`anabranch run FILE`), which speaks JSON with it.");
  }
  const pipes = new Pipes();
  try {
    const { database = "", consumer = "" } = await greet(pipes);
    for (;;) {
      const message = await pipes.read();
      if (typeof message?.batch !== "number") throw new ProtocolError(`a batch was expected: ${shown(message)}`);
      await handleBatch(work, message, new Batch(pipes, message.batch, database, consumer));
    }
  } catch (error) {
    if (error instanceof ProtocolError) {
      log(`anabranch: ${error.message}`);
      process.exitCode = 1;
    } else if (!(error instanceof EngineGone)) {
      throw error;
    }
  } finally {
    pipes.close();
    // Connections and timers of the handler would keep the process alive.
    setTimeout(() => process.exit(), END_WITHIN_MS).unref();
  }
}

/** @param {import("./tx.js").Line} line */
async function greet(line) {
  const message = await line.read();
  const hello = message?.hello;
  if (typeof hello !== "object" || hello === null) throw new ProtocolError(`a greeting was expected: ${shown(message)}`);
  await line.write(`{"hello":{"protocol":${PROTOCOL},"client":"${CLIENT}"}}\n`);
  if (hello.protocol !== PROTOCOL) {
    throw new ProtocolError(
      `Anabranch speaks version ${hello.protocol} of the protocol and this package version ${PROTOCOL}; ` +
        "install the package of the same version",
    );
  }
  return hello;
}

/**
 * One batch, from its events to `done`, to `failed`, or to nothing if it was abandoned.
 *
 * @param {Work} work
 * @param {any} message
 * @param {Batch} batch
 */
async function handleBatch(work, message, batch) {
  /** @type {{event: number | undefined}} */
  const at = { event: undefined };
  let more = "";
  /** @type {{error: any} | undefined} */
  let failed;
  try {
    more = await work(message, batch, at);
  } catch (error) {
    failed = { error };
  }
  await batch.settle();
  if (batch.over !== undefined) {
    if (!(batch.over instanceof Abandoned)) throw batch.over;
    log(`anabranch: batch ${batch.number} was abandoned: ${batch.over.message}`);
    return;
  }
  if (failed === undefined) return batch.finish(`{"done":${batch.number}${more}}\n`);
  const { error } = failed;
  if (error instanceof ProtocolError) throw error;
  if (!(error instanceof Failed)) log(inspect(error));
  const event = (error instanceof Failed ? error.event?.place : undefined) ?? at.event;
  batch.end(error); // Nothing of the batch is stored, so what was not written yet need not be.
  await batch.finish(`${encode({ failed: batch.number, event, ...failure(error) })}\n`);
}

/** @param {unknown} message */
function shown(message) {
  return inspect(message).slice(0, 200);
}
