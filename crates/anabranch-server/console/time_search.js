// From a time to a position: the time at which events were recorded grows nearly with the position.

import { get } from "./api.js";

/** The last position that was recorded at a time or before: about, since appends overtake one another. */
export async function positionAt(time) {
  const one = async (params) => (await get(`/v1/events?${params}&limit=1`)).items[0];
  const newest = await one("direction=backwards");
  const found = { position: 0, at: null };
  if (!newest) return found;
  let [low, high] = [0, Number(newest.position)];
  // `low` is known to be early enough; the event behind the middle may be further on, where positions are missing.
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const event = await one(`after=${middle}`);
    if (event && new Date(event.recorded_at) <= time) {
      low = Number(event.position);
      Object.assign(found, { position: low, at: event.recorded_at });
    } else {
      high = middle;
    }
  }
  return found;
}
