//! Values out of JSON, without reading the rest of it.

use anabranch::backend::named_values::Segment;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Which values are wanted of a document. Each has a number, under which it is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The numbers of this value itself.
    numbers: Vec<usize>,
    keys: Vec<(String, Self)>,
    items: Vec<(usize, Self)>,
}

/// What was found: the text of each value.
pub(crate) type Found<'j> = Vec<Option<&'j str>>;

impl Wanted {
    /// Wants one more.
    pub(crate) fn add(&mut self, steps: &[Segment], number: usize) {
        let Some((first, rest)) = steps.split_first() else {
            self.numbers.push(number);
            return;
        };
        let next = match first {
            Segment::Key(key) => child(&mut self.keys, |known| known == key, || key.clone()),
            Segment::Item(item) => child(&mut self.items, |known| known == item, || *item),
        };
        next.add(rest, number);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.keys.is_empty() && self.items.is_empty()
    }

    /// Finds them in the text of a document.
    pub(crate) fn find<'j>(
        &self,
        json: &'j str,
        found: &mut Found<'j>,
    ) -> Result<(), serde_json::Error> {
        for number in &self.numbers {
            found[*number] = Some(json);
        }
        let is_inside = match json.as_bytes().first() {
            Some(b'{') => !self.keys.is_empty(),
            Some(b'[') => !self.items.is_empty(),
            _ => false,
        };
        if !is_inside {
            return Ok(());
        }
        let mut reader = serde_json::Deserializer::from_str(json);
        reader.deserialize_any(Inside { wanted: self, found })
    }
}

fn child<K>(
    children: &mut Vec<(K, Wanted)>,
    is_it: impl Fn(&K) -> bool,
    key: impl FnOnce() -> K,
) -> &mut Wanted {
    let place = children.iter().position(|(known, _)| is_it(known)).unwrap_or_else(|| {
        children.push((key(), Wanted::default()));
        children.len() - 1
    });
    &mut children[place].1
}

/// What is in an object or a list.
struct Inside<'w, 'f, 'j> {
    wanted: &'w Wanted,
    found: &'f mut Found<'j>,
}

impl<'j> Visitor<'j> for Inside<'_, '_, 'j> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(known) = map.next_key_seed(KeyOf(&self.wanted.keys))? {
            match known {
                Some(wanted) => {
                    let value: &'j RawValue = map.next_value()?;
                    wanted.find(value.get(), self.found).map_err(serde::de::Error::custom)?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut list: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(value) = list.next_element::<&'j RawValue>()? {
            if let Some((_, wanted)) = self.wanted.items.iter().find(|(item, _)| *item == number) {
                wanted.find(value.get(), self.found).map_err(serde::de::Error::custom)?;
            }
            number += 1;
        }
        Ok(())
    }
}

/// A key of an object, if it is wanted.
struct KeyOf<'w>(&'w [(String, Wanted)]);

impl<'w, 'j> DeserializeSeed<'j> for KeyOf<'w> {
    type Value = Option<&'w Wanted>;

    fn deserialize<D: Deserializer<'j>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for KeyOf<'w> {
    type Value = Option<&'w Wanted>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(known, _)| known == key).map(|(_, wanted)| wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Segment {
        Segment::Key(name.to_owned())
    }

    #[test]
    fn values_are_found_wherever_they_are() {
        let mut wanted = Wanted::default();
        let paths = [
            vec![],
            vec![key("a")],
            vec![key("a"), key("b"), Segment::Item(1)],
            vec![key("it's \"x\"")],
            vec![key("a"), key("nope")],
            vec![key("list"), Segment::Item(0), key("n")],
            vec![key("list"), Segment::Item(7)],
            vec![key("n"), key("deeper")],
        ];
        for (number, path) in paths.iter().enumerate() {
            wanted.add(path, number);
        }
        let json =
            r#"{"n": 1e2, "a": {"b": [1, "zwei"]}, "it's \"x\"": null, "list": [{"n": 7}, 8]}"#;
        let mut found = vec![None; paths.len()];
        wanted.find(json, &mut found).unwrap();
        assert_eq!(
            found,
            [
                Some(json),
                Some(r#"{"b": [1, "zwei"]}"#),
                Some("\"zwei\""),
                Some("null"),
                None,
                Some("7"),
                None,
                None,
            ]
        );
    }

    #[test]
    fn nothing_is_found_in_what_is_no_object() {
        let mut wanted = Wanted::default();
        assert!(wanted.is_empty());
        wanted.add(&[key("a")], 0);
        for json in ["null", "7", "[1]", "\"a\"", "{}"] {
            let mut found = vec![None];
            wanted.find(json, &mut found).unwrap();
            assert_eq!(found, [None], "{json}");
        }
    }
}
