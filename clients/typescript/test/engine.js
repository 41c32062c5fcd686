/** Anabranch's side of the conversation, played by a test: a real process, real pipes. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export { event } from "anabranch/testing";

const PATIENCE_MS = 20_000;
const HELLO = { protocol: 1, anabranch: "0.1.0", consumer: "risk", kind: "program", database: "sqlite" };
/** Node starts children with sockets. Anabranch does with pipes, so a shell makes some. */
const WITH_PIPES = 'cat | { "$0" "$1" 2>> "$2"; echo $? > "$3.new"; mv "$3.new" "$3"; } | cat';
const WITH_SOCKETS = '"$0" "$1" 2>> "$2"; echo $? > "$3.new"; mv "$3.new" "$3"';

const PACKAGE = path.dirname(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname));
export const SOURCE = path.join(PACKAGE, "src");

/** A program that is running. */
class Program {
  #read = "";
  #ended = false;
  #wake = () => {};

  constructor(source, sockets) {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), "anabranch-"));
    const file = (name) => path.join(this.folder, name);
    fs.mkdirSync(file("node_modules"));
    fs.symlinkSync(PACKAGE, file("node_modules/anabranch"));
    fs.writeFileSync(file("program.mjs"), source);
    const given = [process.execPath, file("program.mjs"), file("errors"), file("code")];
    this.process = spawn("sh", ["-c", sockets ? WITH_SOCKETS : WITH_PIPES, ...given], {
      detached: true, // A group of its own, which can be killed.
    });
    this.exited = once(this.process, "exit");
    this.process.stdin.on("error", () => {});
    this.process.stdout.setEncoding("utf8");
    this.process.stdout.on("data", (text) => {
      this.#read += text;
      this.#wake();
    });
    this.process.stdout.on("close", () => {
      this.#ended = true;
      this.#wake();
    });
  }

  raw(text) {
    this.process.stdin.write(text);
  }

  numbers = new Set();

  say(message) {
    this.numbers.add(message?.batch);
    this.raw(`${JSON.stringify(message)}\n`);
  }

  async greet(more = {}) {
    this.say({ hello: { ...HELLO, ...more } });
    return this.hear();
  }

  batch(number, ...events) {
    this.say({ batch: number, events });
  }

  task(number, task = {}) {
    const given = { id: "t-1", key: "c-1", payload: null, attempt: 1, idempotency_key: "i-1", checkpoint: null };
    this.say({ batch: number, tasks: [{ ...given, ...task }] });
  }

  /** The next line that it wrote; null at the end. */
  async line() {
    while (!this.#read.includes("\n")) {
      if (this.#ended) return null;
      const waited = new Promise((resolve) => (this.#wake = () => resolve(true)));
      const stop = new AbortController();
      const late = sleep(PATIENCE_MS, false, { signal: stop.signal, ref: true }).catch(() => true);
      const isInTime = await Promise.race([waited, late]);
      stop.abort();
      if (!isInTime) throw new Error(`nothing was answered; standard error: ${this.log()}`);
    }
    const end = this.#read.indexOf("\n");
    const line = this.#read.slice(0, end);
    this.#read = this.#read.slice(end + 1);
    return line;
  }

  async hear() {
    const line = await this.line();
    if (line === null) throw new Error(`it has ended; standard error: ${this.log()}`);
    const message = JSON.parse(line);
    if ("hello" in message || "done" in message || "failed" in message) return message;
    // Each says to which batch it belongs.
    const { batch, ...rest } = message;
    if (!this.numbers.has(batch)) throw new Error(`it answers to a batch that it was not given: ${line}`);
    return rest;
  }

  /** Its messages up to the end of the batch. */
  async hearAll() {
    const heard = [];
    do heard.push(await this.hear());
    while (!("done" in heard.at(-1) || "failed" in heard.at(-1)));
    return heard;
  }

  get unread() {
    return this.#read;
  }

  log() {
    return fs.readFileSync(path.join(this.folder, "errors"), "utf8");
  }

  get hasEnded() {
    return fs.existsSync(path.join(this.folder, "code"));
  }

  /** The code that it ends with. */
  async wait() {
    const until = Date.now() + PATIENCE_MS;
    while (!this.hasEnded) {
      if (Date.now() > until) throw new Error(`it does not end; standard error: ${this.log()}`);
      await sleep(5);
    }
    return Number(fs.readFileSync(path.join(this.folder, "code"), "utf8"));
  }

  async end() {
    this.process.stdin.end();
    const line = await this.line();
    if (line !== null) throw new Error(`it said ${line} after its end`);
    return this.wait();
  }

  async close() {
    this.process.stdin.destroy();
    this.process.stdout.destroy();
    try {
      process.kill(-this.process.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    await this.exited;
    fs.rmSync(this.folder, { recursive: true });
  }
}

/** Starts a program for a test. The package is imported already, and `program` is what follows. */
export async function start(test, program, { greet = true, sockets = false } = {}) {
  const source = `import { Abandoned, Decimal, Failed, run, runTasks } from "anabranch";\n${program}`;
  const started = new Program(source, sockets);
  test.after(() => started.close());
  if (greet) await started.greet();
  return started;
}
