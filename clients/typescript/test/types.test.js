/** The declarations, as a user of them and as the sources see them. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import * as anabranch from "anabranch";
import * as client from "anabranch/client";
import * as testing from "anabranch/testing";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const COMPILER = path.join(PACKAGE, "node_modules/typescript");

/** The compiler of the lock file: npm comes with Node. */
function compiler() {
  const locked = JSON.parse(fs.readFileSync(path.join(PACKAGE, "package-lock.json"), "utf8"));
  const wanted = locked.packages["node_modules/typescript"].version;
  const manifest = path.join(COMPILER, "package.json");
  const found = fs.existsSync(manifest) && JSON.parse(fs.readFileSync(manifest, "utf8")).version;
  if (found !== wanted) {
    const beside = `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH}`;
    const options = { cwd: PACKAGE, encoding: "utf8", env: { ...process.env, PATH: beside } };
    const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], options);
    assert.equal(npm.status, 0, `npm ci has failed: ${npm.error ?? npm.stderr}`);
  }
  return path.join(COMPILER, "bin/tsc");
}

test("a program and the sources agree with the declarations", () => {
  const project = path.join(PACKAGE, "test/tsconfig.json");
  const checked = spawnSync(process.execPath, [compiler(), "--project", project], { encoding: "utf8" });
  assert.equal(checked.status, 0, checked.stdout);
});

test("what is declared is there", () => {
  for (const [module, names] of [["index", anabranch], ["testing", testing], ["client/index", client]]) {
    const text = fs.readFileSync(path.join(PACKAGE, `src/${module}.d.ts`), "utf8");
    const declared = [...text.matchAll(/^export declare (?:class|function) (\w+)/gm)].map(([, name]) => name);
    assert.deepEqual(Object.keys(names).sort(), declared.sort());
  }
});
