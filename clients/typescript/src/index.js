/**
 * Handlers for Anabranch: exactly once, in order, in the transaction of the cursor.
 *
 * | module | subject |
 * |---|---|
 * | `run` | `run` and `runTasks`: the conversation with Anabranch |
 * | `tx` | what a handler may ask for: statements, queries, events, tasks |
 * | `event` | events, tasks and rows as handlers see them |
 * | `values` | values as JSON, with all their digits |
 * | `parse` | JSON as values, with all their digits |
 * | `pipes` | the two pipes, and everybody else kept away from them |
 * | `errors` | how a handler fails, and how a batch ends |
 * | `testing` | handlers without a database |
 * | `client/` | the HTTP API of `anabranch serve`, for programs that are no handlers |
 */

export { Abandoned, Failed } from "./errors.js";
export { run, runTasks } from "./run.js";
export { Decimal } from "./values.js";
