// Numbers, times and names as people read them.

const WHOLE = new Intl.NumberFormat("en");

export function count(value) {
  return value === null || value === undefined ? "–" : WHOLE.format(value);
}

/** `3 keys`, `1 key`. */
export function many(value, one, more = `${one}s`) {
  return `${count(value)} ${Number(value) === 1 ? one : more}`;
}

/** Short, for figures that move: `12.3k`. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10) return String(Math.round(value * 10) / 10);
  if (value < 10_000) return WHOLE.format(Math.round(value));
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

/** How long: `4 s`, `3 min`, `2 h 5 min`, `3 d 4 h`. */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** How long ago. */
export function ago(time) {
  return time ? `${span((Date.now() - Date.parse(time)) / 1000)} ago` : "–";
}

/** A time of day, with the date if it is not today's. */
export function time(text) {
  if (!text) return "–";
  const at = new Date(text);
  const clock = at.toLocaleTimeString("en-GB", { hour12: false });
  // Swedes write a date as ISO does, here the one of the clock beside it.
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString("sv-SE")} ${clock}`;
}
