/** A server of a test, which can be killed and started again, behind a proxy that can lose what it answers. */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { connect } from "anabranch/client";

const PATIENCE = 60_000;

/** Waits for a condition. */
export async function until(what, isSo) {
  const end = performance.now() + PATIENCE;
  while (!isSo()) {
    assert.ok(performance.now() < end, `waited a minute until ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

/** What `cargo xtask test -- -p anabranch-cli --test clients` provides. */
export function provided(name) {
  const found = process.env[name];
  assert.ok(found, `these tests need ${name}: cargo xtask test -- -p anabranch-cli --test clients`);
  return found;
}

/** Passes connections on to where the server is, and loses answers if it is told to. */
class Proxy {
  target = 0;
  /** So many answers are lost, though the server has given them; so much of each is passed on. */
  loses = 0;
  passes = 0;
  /** Each connection is cut after so many bytes of answers: the first number, then the second, … */
  cuts = [];
  /** How often somebody has come, and how many answers were lost. */
  came = 0;
  lost = 0;
  #open = new Set();
  #listener = net.createServer((client) => this.#pass(client));

  async start() {
    this.#listener.listen(0, "127.0.0.1");
    await once(this.#listener, "listening");
    this.url = `http://127.0.0.1:${this.#listener.address().port}`;
  }

  #pass(client) {
    this.came += 1;
    const server = net.connect(this.target, "127.0.0.1");
    let left = this.cuts.length > 0 ? this.cuts.shift() : Infinity;
    for (const [one, other] of [[client, server], [server, client]]) {
      this.#open.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#open.delete(one);
        other.end();
      });
    }
    client.on("data", (piece) => server.write(piece));
    server.on("data", (piece) => {
      let most = left;
      if (this.loses > 0) {
        this.loses -= 1;
        this.lost += 1;
        most = this.passes;
      }
      left -= piece.length;
      if (piece.length < most) return void client.write(piece);
      client.end(piece.subarray(0, most));
      server.destroy();
    });
  }

  /** Ends all connections: those that come are new ones. */
  disconnect() {
    for (const socket of this.#open) socket.destroy();
  }

  close() {
    this.#listener.close();
    this.disconnect();
  }
}

/** `anabranch serve` on a file of SQLite. */
export class Server {
  #command = provided("ANABRANCH_TEST_COMMAND");
  #folder = fs.mkdtempSync(path.join(os.tmpdir(), "anabranch-"));
  #url = `sqlite://${path.join(this.#folder, "log.db")}`;
  #process;
  proxy = new Proxy();

  /** Starts one that ends with the test. */
  static async start(t, { needsToken = true } = {}) {
    const server = new Server();
    server.token = needsToken ? server.makeToken("read,append,operate") : null;
    t.after(() => server.#close());
    await server.proxy.start();
    await server.start();
    return server;
  }

  makeToken(scopes) {
    const make = ["token", "make", "test", "--scope", scopes, "--url", this.#url];
    const made = spawnSync(this.#command, make, { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    return made.stdout.trim();
  }

  async start() {
    const serve = ["serve", "--url", this.#url, "--listen", "127.0.0.1:0"];
    const child = spawn(this.#command, serve, { stdio: ["ignore", "ignore", "pipe"] });
    this.#process = child;
    this.proxy.target = await new Promise((done, failed) => {
      const lines = readline.createInterface({ input: child.stderr });
      lines.on("line", (line) => {
        const found = /served at http:\/\/127\.0\.0\.1:(\d+)/.exec(line);
        if (found) done(Number(found[1]));
      });
      child.on("exit", () => failed(new Error("the server does not start")));
    });
  }

  async stop(how = "SIGKILL") {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill(how);
    await ended;
  }

  connect(options) {
    return connect(this.proxy.url, this.token, options);
  }

  async #close() {
    this.proxy.close();
    await this.stop();
    fs.rmSync(this.#folder, { recursive: true });
  }
}

/** All that comes. */
export async function all(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

/** The data of all that comes. */
export async function data(events) {
  return (await all(events)).map((event) => event.data);
}

/** The numbers from one up to another. */
export function range(from, to) {
  return Array.from({ length: to - from }, (_, n) => from + n);
}
