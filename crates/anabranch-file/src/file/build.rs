//! From the text of a file to what it says. Every mistake is found in one run: what cannot be read is left out,
//! and the rest is looked at.

use super::consumers;
use super::json;
use super::keys::FILE;
use super::model::{File, Set};
use super::problem::{Problem, Problems, Source};
use super::setting::Setting;
use super::shape::DATABASES;
use super::tests;
use super::text::Text;
use super::validate;
use super::webhook;
use crate::schedule;
use anabranch::{HashRule, Tuning};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl File {
    /// Reads a file.
    ///
    /// ```
    /// use anabranch_file::file::{File, Source};
    /// let text = r#"
    ///     [[replica_set]]
    ///     name = "reports"
    ///     lane = 4
    /// "#;
    /// let problems = File::parse(&Source::new("orders.toml", text)).unwrap_err();
    /// assert_eq!(problems.all()[0].said, "unknown key `lane` in a replica set");
    /// assert_eq!(problems.all()[0].help.as_deref(), Some("did you mean `lanes`?"));
    /// ```
    pub fn parse(source: &Source) -> Result<Self, Problems> {
        let file = Self::parse_to_check(source)?;
        Problems::none_in(source, file.mistakes.clone())?;
        Ok(file)
    }

    /// The same, as far as a file with mistakes can be read: [`check`](crate::check()) finds more of them in it. What
    /// is no TOML cannot be read at all.
    pub fn parse_to_check(source: &Source) -> Result<Self, Problems> {
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        let mut problems: Vec<Problem> = errors
            .iter()
            .map(|error| Problem::new(error.span().unwrap_or(0..0), error.message()))
            .collect();
        // What was made up to go on would only be complained about again.
        Problems::none_in(source, problems.clone())?;
        let table = document.get_ref();
        validate::table(table, &(0..0), &FILE, &mut problems);
        let mut reader = Reader { source, problems };
        let mut file = reader.file(&Fields { table, span: 0..0 });
        file.mistakes = reader.problems;
        Ok(file)
    }

    /// Reads the file at a path.
    pub fn read(path: &Path) -> std::io::Result<Result<Self, Problems>> {
        Ok(Self::parse(&Source::read(path)?))
    }

    /// The same, as far as a file with mistakes can be read.
    pub fn read_to_check(path: &Path) -> std::io::Result<Result<Self, Problems>> {
        Ok(Self::parse_to_check(&Source::read(path)?))
    }
}

/// What reads a file: it goes on after a mistake.
pub(super) struct Reader<'s> {
    pub(super) source: &'s Source,
    pub(super) problems: Vec<Problem>,
}

/// A table, and where it stands. What is of another kind than it must be is not there: `validate` has said so.
#[derive(Clone)]
pub(super) struct Fields<'t, 'i> {
    pub(super) table: &'t DeTable<'i>,
    pub(super) span: Range<usize>,
}

impl<'t, 'i> Fields<'t, 'i> {
    pub(super) fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.table.get(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<Text> {
        self.value(key).and_then(text)
    }

    /// A text that may be left out; an empty one where it may not, since that was said already.
    pub(super) fn name(&self, key: &str) -> Text {
        self.text(key).unwrap_or_else(|| Text { text: String::new(), span: self.span.clone() })
    }

    pub(super) fn word(&self, key: &str) -> Option<&'t str> {
        self.value(key)?.get_ref().as_str()
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        let number = self.value(key)?.get_ref().as_integer()?;
        let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
        T::try_from(number).ok()
    }

    pub(super) fn truth(&self, key: &str) -> Option<bool> {
        self.value(key)?.get_ref().as_bool()
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        validate::duration(self.word(key)?).ok()
    }

    pub(super) fn texts(&self, key: &str) -> Vec<Text> {
        let items = self.value(key).and_then(|value| value.get_ref().as_array());
        items.into_iter().flatten().filter_map(text).collect()
    }

    pub(super) fn strings(&self, key: &str) -> Vec<String> {
        self.texts(key).into_iter().map(|text| text.text).collect()
    }

    pub(super) fn table(&self, key: &str) -> Option<Fields<'t, 'i>> {
        fields(self.value(key)?)
    }

    /// The tables of a list, or the one that stands in its place.
    pub(super) fn tables(&self, key: &str) -> Vec<Fields<'t, 'i>> {
        match self.value(key).map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => items.iter().filter_map(fields).collect(),
            Some(DeValue::Table(_)) => self.table(key).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Any value as JSON.
    pub(super) fn json(&self, key: &str) -> Option<serde_json::Value> {
        self.value(key).map(|value| json::json(value.get_ref()))
    }

    /// Any value as the text of JSON; `null` if there is none.
    pub(super) fn raw_json(&self, key: &str) -> Box<RawValue> {
        let raw = self.value(key).and_then(|value| json::raw(value.get_ref()));
        raw.unwrap_or_else(|| RawValue::NULL.to_owned())
    }
}

fn fields<'t, 'i>(value: &'t Spanned<DeValue<'i>>) -> Option<Fields<'t, 'i>> {
    let table = value.get_ref().as_table()?;
    Some(Fields { table, span: value.span() })
}

pub(super) fn text(value: &Spanned<DeValue<'_>>) -> Option<Text> {
    let text = value.get_ref().as_str()?.to_owned();
    Some(Text { text, span: value.span() })
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn file(&mut self, fields: &Fields<'_, '_>) -> File {
        let sets: Vec<Set> =
            fields.tables("replica_set").into_iter().map(|set| self.set(&set)).collect();
        let tests = fields.tables("test");
        let tests =
            tests.into_iter().enumerate().map(|(at, test)| tests::test(self, at + 1, &test));
        let tests = tests.collect();
        let file = File {
            source: self.source.clone(),
            url: self.setting(fields, "url"),
            namespace: self.setting(fields, "namespace"),
            events_url: self.setting(fields, "events_url"),
            sets,
            tests,
            mistakes: Vec::new(),
        };
        self.refuse_doubles(&file);
        tests::refuse_unknown_names(self, &file);
        file
    }

    fn set(&mut self, fields: &Fields<'_, '_>) -> Set {
        let name = fields.name("name");
        let lanes = fields.number("lanes").unwrap_or(1);
        let mut set = Set {
            name,
            lanes,
            tuning: self.tuning(fields),
            rollout: fields.word("rollout").and_then(|word| word.parse().ok()).unwrap_or_default(),
            grace: fields.duration("grace").unwrap_or(Duration::from_secs(10)),
            fail_fast: fields.truth("fail_fast").unwrap_or_default(),
            projections: Vec::new(),
            programs: Vec::new(),
            webhooks: Vec::new(),
            pools: Vec::new(),
            schedules: Vec::new(),
        };
        for projection in fields.tables("projection") {
            set.projections.extend(consumers::projection(self, &projection));
        }
        for program in fields.tables("program") {
            set.programs.extend(consumers::program(self, &program));
        }
        for webhook in fields.tables("webhook") {
            set.webhooks.extend(webhook::webhook(self, &webhook));
        }
        for pool in fields.tables("pool") {
            set.pools.push(consumers::pool(self, &pool));
        }
        for schedule in fields.tables("schedule") {
            set.schedules.extend(consumers::schedule(self, &schedule));
        }
        if set.is_empty() && self.problems.is_empty() {
            let said = format!("replica set `{}` has no consumers", set.name.text);
            let help = "add a [[replica_set.projection]], a [[replica_set.program]], a [[replica_set.webhook]] or a \
                        [[replica_set.pool]]";
            self.problem(Problem::new(fields.span.clone(), said).help(help));
        }
        set
    }

    fn tuning(&mut self, fields: &Fields<'_, '_>) -> Tuning {
        let Some(fields) = fields.table("tuning") else { return Tuning::default() };
        let mut tuning = match fields.word("preset") {
            Some("throughput") => Tuning::throughput(),
            Some("latency") => Tuning::latency(),
            Some("stable") => Tuning::stable(),
            _ => Tuning::default(),
        };
        if let Some(lease) = fields.duration("lease") {
            tuning = tuning.lease(lease);
        }
        if let Some(heartbeat) = fields.duration("heartbeat") {
            tuning = tuning.heartbeat(heartbeat);
        }
        if let Some(timeout) = fields.duration("coordination_timeout") {
            tuning = tuning.coordination_timeout(timeout);
        }
        if let Some(events) = fields.number("batch_size") {
            tuning = tuning.batch_size(events);
        }
        if let Some(poll) = fields.duration("poll") {
            tuning = tuning.poll(poll);
        }
        match fields.text("rebalance") {
            Some(text) if text.text == "never" => tuning = tuning.never_rebalance(),
            Some(text) => match validate::duration(&text.text) {
                Ok(every) => tuning = tuning.rebalance(every),
                Err(said) => {
                    let problem = Problem::new(text.span, format!("`rebalance`: {said}"));
                    self.problem(problem.help("or \"never\""));
                }
            },
            None => {}
        }
        if let Err(error) = tuning.check() {
            self.problem(Problem::new(fields.span.clone(), error.to_string()));
        }
        tuning
    }

    /// A text that may be taken from the environment.
    pub(super) fn setting(&mut self, fields: &Fields<'_, '_>, key: &str) -> Option<Setting> {
        fields.text(key).and_then(|text| self.setting_of(text))
    }

    /// Several of them, by their names.
    pub(super) fn settings(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
    ) -> Vec<(String, Setting)> {
        let table = fields.value(key).and_then(|value| value.get_ref().as_table());
        let named = table.into_iter().flatten().filter_map(|(name, value)| {
            let value = text(value).and_then(|text| self.setting_of(text))?;
            Some((name.get_ref().as_ref().to_owned(), value))
        });
        named.collect()
    }

    pub(super) fn setting_of(&mut self, text: Text) -> Option<Setting> {
        Setting::new(text).map_err(|problem| self.problem(problem)).ok()
    }

    pub(super) fn hash(&self, fields: &Fields<'_, '_>) -> Option<HashRule> {
        fields.word("hash").and_then(|word| word.parse().ok())
    }

    /// Consumers are stored under their names, so there is one of each, whatever the set.
    fn refuse_doubles(&mut self, file: &File) {
        let mut seen: HashMap<String, &Text> = HashMap::new();
        let (mut sets, mut schedules) = (HashMap::new(), HashMap::new());
        // The schedules of a set are a pool of their own.
        let of_schedules: Vec<Text> = file
            .sets
            .iter()
            .filter(|set| !set.schedules.is_empty())
            .map(|set| Text { text: schedule::pool_name(set), span: set.name.span.clone() })
            .collect();
        // Names that differ only in capital letters are refused where they are stored.
        let in_any_case = |name: &Text| name.text.to_ascii_lowercase();
        seen.extend(of_schedules.iter().map(|name| (in_any_case(name), name)));
        for (_, name) in file.consumers().filter(|(_, name)| !name.text.is_empty()) {
            if let Some(first) = seen.insert(in_any_case(name), name) {
                self.double("consumer", name, first);
            }
        }
        for set in &file.sets {
            if let Some(first) = sets.insert(set.name.text.as_str(), &set.name) {
                self.double("replica set", &set.name, first);
            }
            for schedule in &set.schedules {
                if let Some(first) = schedules.insert(schedule.name.text.as_str(), &schedule.name) {
                    self.double("schedule", &schedule.name, first);
                }
            }
        }
    }

    fn double(&mut self, what: &str, name: &Text, first: &Text) {
        let line = self.source.place(first.span.start).line;
        let case = match first.text == name.text {
            true => "",
            false => ", and the two names differ only in capital letters",
        };
        let said = format!("there is another {what} `{}`, in line {line}{case}", first.text);
        let help = "give it a name of its own: what it has done is stored under it";
        self.problem(Problem::new(name.span.clone(), said).help(help));
    }
}

/// The databases that have a form, of a table with forms.
pub(super) fn database(name: &str) -> Option<&'static str> {
    DATABASES.into_iter().find(|known| *known == name)
}
