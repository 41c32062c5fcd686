//! The slot map as workers come and go: the colours that are seen, and the table for those who do not see them.

use crate::browser::Browser;
use crate::place::Place;
use crate::stage::{Stage, Worker};
use crate::tab::Tab;
use serde_json::{Value, json};

/// How many slots each owner has, and the colours of their cells in the middle: `{owner: {slots, colours}}`.
const OWNERS: &str = r"(() => {
  const map = document.querySelector('[data-test=slot-map]');
  const [columns, rows] = [Number(map.dataset.columns), Number(map.dataset.rows)];
  const picture = map.getContext('2d').getImageData(0, 0, map.width, map.height);
  const colour = (slot) => {
    const x = Math.floor((slot % columns + 0.5) * map.width / columns);
    const y = Math.floor((Math.floor(slot / columns) + 0.5) * map.height / rows);
    const at = 4 * (y * map.width + x);
    return picture.data.slice(at, at + 3).join();
  };
  const owners = {};
  for (const row of document.querySelectorAll('[data-test=run-row]')) {
    const owner = owners[row.dataset.owner] ??= { slots: 0, colours: [] };
    for (let slot = Number(row.dataset.from); slot <= Number(row.dataset.to); slot++) {
      owner.slots += 1;
      if (!owner.colours.includes(colour(slot))) owner.colours.push(colour(slot));
    }
  }
  return owners;
})()";

/// Whether the slot that is pointed at has the owner that its row has.
const SAME: &str = r"(() => {
  const { slot, owner } = document.querySelector('[data-test=slot-detail]').dataset;
  const rows = [...document.querySelectorAll('[data-test=run-row]')].map((row) => row.dataset);
  const row = rows.find(({ from, to }) => Number(from) <= Number(slot) && Number(slot) <= Number(to));
  return owner !== '' && row.owner === owner;
})()";

/// Waits until each of these has its share, and one colour of its own; answers the colours.
fn shared_by(tab: &Tab, workers: &[&Worker]) -> Vec<Value> {
    let ids: Vec<&str> = workers.iter().map(|worker| worker.id.as_str()).collect();
    let share = 5040 / workers.len();
    let expression = format!(
        "(() => {{ const [owners, ids] = [{OWNERS}, {}];
           const colours = ids.map((id) => owners[id].colours[0]);
           const all = Object.keys(owners).length === ids.length && new Set(colours).size === ids.length
             && ids.every((id) => owners[id].slots === {share} && owners[id].colours.length === 1);
           if (!all) throw JSON.stringify(owners);
           return colours; }})()",
        json!(ids)
    );
    let colours = tab.wait(&format!("{} workers share the slots", workers.len()), &expression);
    colours.as_array().unwrap().clone()
}

fn slots_follow_their_workers(stage: Stage) {
    let first = stage.worker();
    let browser = Browser::start();
    let tab = browser.tab();
    // What reads the canvas is this test.
    tab.expect_complaints("willReadFrequently");
    stage.open(&tab, "#/consumers/totals");
    let [of_first] = shared_by(&tab, &[&first]).try_into().unwrap();

    let second = stage.worker();
    let both = shared_by(&tab, &[&first, &second]);
    assert_eq!(both[0], of_first, "a worker keeps its colour");

    // What is said of one slot is what the table says.
    tab.click("[data-test=slot-grid]");
    tab.wait("both say the same", SAME);

    second.kill();
    assert_eq!(shared_by(&tab, &[&first]), [of_first]);
}

#[test]
fn slots_change_colour_when_a_worker_joins_and_when_one_is_killed_on_sqlite() {
    slots_follow_their_workers(Stage::quick(Place::sqlite()));
}

#[test]
fn slots_change_colour_when_a_worker_joins_and_when_one_is_killed_on_postgresql() {
    slots_follow_their_workers(Stage::quick(Place::postgres()));
}
