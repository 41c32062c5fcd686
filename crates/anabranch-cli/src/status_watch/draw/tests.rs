use super::super::picture::{Mark, Part, SetLine};
use super::super::why::{PARKED, Why};
use super::*;
use anabranch::operate::Reason;
use anabranch::partitioning::SlotSet;

fn mark(number: usize) -> Mark {
    Mark { number, place: format!("host:{}", 100 + number) }
}

fn part(index: u16, of: u16, owner: Option<usize>, lag: u64, reasons: &[Reason]) -> Part {
    let (slots, owner) = (SlotSet::partition(index, of), owner.map(mark));
    Part { slots, owner, lag: Some(lag), why: Why::of(reasons) }
}

fn consumer(name: &str, lag: u64, state: &str, parts: Vec<Part>) -> ConsumerLine {
    let (name, state, rate) = (name.to_owned(), state.to_owned(), Some(2013));
    let (lag, parked) = (lag.to_string(), "0".to_owned());
    ConsumerLine { name, state, rate, lag, parked, parts, ..ConsumerLine::default() }
}

/// Even slots are one worker's, odd ones another's. One slot has a parked key.
fn picture() -> Picture {
    let halves = |lag| vec![part(0, 2, Some(0), lag, &[]), part(1, 2, Some(1), 0, &[])];
    let customers = ConsumerLine {
        rate: None,
        parked: "1".to_owned(),
        marks: vec![(168, PARKED)],
        ..consumer("customers", 12, "running, 1 key parked", halves(12))
    };
    let set = SetLine { name: "demo".to_owned(), lanes: 4, alive: vec![mark(0), mark(1)], dead: 1 };
    Picture {
        head: 20345,
        appended: Some(2013),
        consumers: vec![customers, consumer("order_totals", 0, "running", halves(0))],
        sets: vec![set],
    }
}

fn view() -> View {
    View { every: "1 s".to_owned(), ..View::default() }
}

fn text(picture: &Picture, view: &View, size: (usize, usize)) -> Vec<String> {
    draw(picture, view, size).iter().map(Line::text).collect()
}

const SMALL: &str = "\
anabranch status  log at 20345, 2013/s appended, 2 workers   every 1 s
  CONSUMER      LAG  EVENTS/S  PARKED  RETRYING  STATE
▸ customers      12         -       1         0  running, 1 key parked
  order_totals    0      2013       0         0  running

  REPLICA SET  LANES  WORKERS
  demo             4  2 and 1 dead  A host:100  B host:101


q end  ? help  the map of slots needs a terminal of 84 × 36";

#[test]
fn a_small_terminal_has_the_overview() {
    assert_eq!(text(&picture(), &view(), (70, 10)).join("\n"), SMALL);
}

#[test]
fn nothing_is_wider_or_higher_than_the_terminal() {
    let mut picture = picture();
    let long =
        |number| consumer(&format!("{number:x<90}"), u64::MAX, &"because ".repeat(60), Vec::new());
    picture.consumers.extend((0..50).map(long));
    for has_colours in [true, false] {
        for shows_help in [true, false] {
            let error = shows_help.then(|| "error: the database is away ".repeat(9));
            let view = View { has_colours, shows_help, error, ..view() };
            for columns in [0, 1, 2, 10, 83, 84, 85, 113, 114, 300] {
                for rows in [0, 1, 2, 3, 5, 24, 35, 36, 37, 38, 60, 200] {
                    let lines = draw(&picture, &view, (columns, rows));
                    assert_eq!(lines.len(), rows, "{columns} × {rows}");
                    assert!(lines.iter().all(|line| line.width() <= columns));
                }
            }
        }
    }
}

#[test]
fn the_map_is_84_by_30_letters_of_two_slots() {
    let lines = text(&picture(), &view(), (84, 38));
    let heading = lines.iter().position(|line| line == "slots of customers by owner").unwrap();
    let map = &lines[heading + 1..][..30];
    // Slots above each other belong to the same worker, since 84 is even.
    assert_eq!(map[0], "AB".repeat(42));
    // Slot 168 is the first of row 2, which is the upper one of line 1.
    assert_eq!(map[1], format!("!{}", &"AB".repeat(42)[1..]));
    assert!(map[2..].iter().all(|line| *line == map[0]));
    assert_eq!(lines[37], KEYS);
    let legend = "A 2519 host:100   B 2520 host:101   !    1 parked key";
    assert_eq!(lines[heading + 31], legend);
}

#[test]
fn the_map_of_the_chosen_consumer_is_coloured_by_what_is_chosen() {
    let by = |by, chosen: &str| {
        let view = View { by, chosen: Some(chosen.to_owned()), ..view() };
        let lines = text(&picture(), &view, (130, 45));
        let heading = lines.iter().position(|line| line.starts_with("slots of")).unwrap();
        let beside = lines[heading + 1..][..30].iter();
        let beside = beside.map(|line| line.chars().skip(86).collect::<String>());
        beside.filter(|entry| !entry.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(by(ColourBy::Lag, "customers"), ["0 2520 no lag", "2 2520 10 to 99"]);
    assert_eq!(by(ColourBy::Lag, "order_totals"), ["0 5040 no lag"]);
    assert_eq!(by(ColourBy::Reason, "customers"), ["- 5039 as it should be", "p    1 parked key"]);
    // Where the chosen one is gone, it is the first.
    let trouble = "!    1 parked key";
    assert_eq!(by(ColourBy::Owner, "gone")[2], trouble);
}

#[test]
fn slots_of_nobody_and_slots_that_stand_are_told_apart() {
    let mut picture = picture();
    let [paused, alone] = [[Reason::Paused], [Reason::Unassigned]];
    let moves = [Reason::AwaitsRelease { to: vec!["c".to_owned()] }];
    picture.consumers[0].marks.clear();
    picture.consumers[0].parts = vec![
        part(0, 3, Some(0), 0, &paused),
        part(1, 3, None, 0, &alone),
        part(2, 3, Some(1), 0, &moves),
    ];
    let map = Map::of(&picture.consumers[0], ColourBy::Owner, false);
    let legend: Vec<String> =
        map.legend(&picture.consumers[0], ROWS).iter().map(Line::text).collect();
    let expected = ["B 1680 host:101", "! 1680 paused", ". 1680 nobody has it"];
    assert_eq!(legend, expected);
    // 84 is a multiple of 3, so slots above each other are alike.
    assert_eq!(map.lines(ROWS)[0].text(), "!.B".repeat(28));
    let map = Map::of(&picture.consumers[0], ColourBy::Reason, false);
    assert_eq!(map.lines(ROWS)[0].text(), "Puh".repeat(28));
}

#[test]
fn a_cell_has_the_colours_of_its_two_slots() {
    let halves = |first: u16| {
        let rows = move |slot: &anabranch::partitioning::Slot| slot.get() / 84 % 2 == first;
        SlotSet::all().iter().filter(rows).collect::<SlotSet>()
    };
    let of = |number: u16| Part {
        slots: halves(number),
        owner: Some(mark(number.into())),
        lag: None,
        why: None,
    };
    let line = consumer("a", 0, "running", vec![of(0), of(1)]);
    let map = Map::of(&line, ColourBy::Owner, true);
    let painted = map.lines(ROWS)[0].painted(true);
    assert_eq!(painted, format!("\x1b[38;5;74;48;5;179m{}\x1b[0m", "▀".repeat(84)));
    let letters = Map::of(&line, ColourBy::Owner, false).lines(ROWS)[0].text();
    assert_eq!(letters, "+".repeat(84), "two owners in one letter");
    let legend = Map::of(&line, ColourBy::Owner, false).legend(&line, ROWS);
    assert_eq!(legend[2].text(), "+ two slots that differ");
    let tall = Map::of(&line, ColourBy::Owner, false).lines(2 * ROWS);
    let rows: Vec<String> = tall.iter().map(Line::text).collect();
    assert_eq!(rows.len(), 60, "where there is room, each slot has its own");
    assert_eq!([&rows[0], &rows[1]], [&"A".repeat(84), &"B".repeat(84)]);
}

#[test]
fn what_fails_stands_above_and_a_log_without_consumers_says_so() {
    let error = Some("seen 3 s ago; error: gone".to_owned());
    let lines = text(&picture(), &View { error, is_paused: true, ..view() }, (70, 12));
    assert!(lines[0].ends_with(" paused"), "{lines:#?}");
    assert_eq!(lines[1], " seen 3 s ago; error: gone");
    let lines = text(&Picture::default(), &view(), (70, 5));
    assert!(lines[2].starts_with("there are no consumers yet"), "{lines:#?}");
}

#[test]
fn the_chosen_consumer_is_seen_among_many() {
    let mut picture = picture();
    picture.consumers.extend((0..40).map(|n| consumer(&format!("c{n:02}"), 0, "running", vec![])));
    let view = View { chosen: Some("c30".to_owned()), ..view() };
    let lines = text(&picture, &view, (80, 24));
    assert!(lines.iter().any(|line| line.starts_with("▸ c30")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("  … ")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("  demo")), "{lines:#?}");
}
