// All pages, by the names of `places.js`.

import { batches } from "./batches.js";
import { consumer } from "./consumer.js";
import { deliveries } from "./deliveries.js";
import { event } from "./event.js";
import { events } from "./events.js";
import { failed } from "./failed.js";
import { instance } from "./instance.js";
import { journal } from "./journal.js";
import { overview } from "./overview.js";
import { parkedKey } from "./parked_key.js";
import { stream } from "./stream.js";
import { task } from "./task.js";
import { tasks } from "./tasks.js";
import { worker } from "./worker.js";
import { workflows } from "./workflows.js";

export const PAGES = {
  overview, consumer, worker, failed, parkedKey, events, event, stream, tasks, task, workflows, instance, deliveries, batches, journal,
};
