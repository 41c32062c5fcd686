/**
 * The HTTP API of `anabranch serve`: append, read, tail, enqueue, command, operate.
 *
 * | module | subject |
 * |---|---|
 * | `client` | `connect` and `Client`: what can be asked of the server |
 * | `given` | what a request is made of: new events, conditions, queries |
 * | `answers` | what the server answers, beside events |
 * | `stored` | events: parsed, and as they are written |
 * | `slices` | parts of a text of JSON, as they are written |
 * | `tail` | a tail that goes on where it was |
 * | `frames` | server-sent events, from pieces of text |
 * | `http` | requests, and what is sent again |
 * | `problems` | what can go wrong |
 */

export { Client, connect } from "./client.js";
export {
  ApiError,
  CommandRefused,
  Conflict,
  Dropped,
  Invalid,
  NoAnswer,
  NotAllowed,
  NotAuthenticated,
  NotFound,
  NotTheApi,
  Problem,
  StillOpen,
  StillRunning,
  Unavailable,
} from "./problems.js";
