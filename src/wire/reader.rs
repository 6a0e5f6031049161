//! A strict JSON reader: every refusal names its field by a JSON pointer, and numbers are read exactly.
//!
//! A body is checked for being JSON at once and then read field by field from its own text: nothing is built in
//! between, so a number is never rounded (`1e400` is a number that is out of range, not broken JSON). Unknown and
//! repeated fields are refused, and so are whole numbers that are written with a fraction or an exponent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::time;
use crate::domain::id::BadId;
use crate::domain::money::{MICROS_MAX, Micros};
use crate::domain::time::{Day, Timestamp};

/// A field that can't be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where: a JSON pointer into the body, or `?name` of a query parameter.
    pub pointer: String,
    /// What it must be.
    pub detail: String,
}

/// A body that is not JSON at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// What is wrong, with line and column.
    pub detail: String,
}

/// Where a value lies in its document; written as a JSON pointer (RFC 6901) only when it is needed.
#[derive(Clone, Copy, Debug)]
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(out, "{parent}/{}", name.replace('~', "~0").replace('/', "~1")),
            Self::Index(parent, index) => write!(out, "{parent}/{index}"),
        }
    }
}

/// A value of a document that is known to be JSON.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a, 'p> {
    text: &'a str,
    path: Path<'p>,
}

/// Checks that a body is one JSON document; [`NotJson`] when it is not (an empty one, NaN).
pub fn document(body: &[u8]) -> Result<Value<'_, 'static>, NotJson> {
    let raw: &RawValue = serde_json::from_slice(body).map_err(|error| NotJson { detail: error.to_string() })?;
    Ok(Value { text: raw.get(), path: Path::Root })
}

/// Characters of an unknown field's name that a refusal repeats.
const NAME_SHOWN: usize = 100;

/// A text without the character that no database takes, and a length in characters.
pub fn plain_text(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max && !text.contains('\0')
}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Value<'a, '_> {
    fn bad<T>(&self, detail: impl Into<String>) -> Result<T, Invalid> {
        Err(Invalid { pointer: self.path.to_string(), detail: detail.into() })
    }

    /// A refusal of this value.
    #[must_use]
    pub fn refused(&self, detail: &str) -> Invalid {
        Invalid { pointer: self.path.to_string(), detail: detail.to_owned() }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.text == "null"
    }

    /// An object with no other fields than the known ones, each at most once.
    pub fn object<const N: usize>(&self, known: [&'static str; N]) -> Result<Object<'a, '_, N>, Invalid> {
        if !self.text.starts_with('{') {
            return self.bad("must be an object");
        }
        let mut fields = Fields { known, values: [None; N], fault: None };
        // The text is JSON, so the only faults left are the ones that the visitor notes.
        let read = serde_json::Deserializer::from_str(self.text).deserialize_map(&mut fields);
        if let Some((name, detail)) = fields.fault {
            return Err(Invalid { pointer: Path::Field(&self.path, &name).to_string(), detail: detail.to_owned() });
        }
        match read {
            Ok(()) => Ok(Object { known, values: fields.values, path: &self.path }),
            Err(error) => self.bad(error.to_string()),
        }
    }

    /// An array's values; refused beyond `items_max`.
    pub fn items(&self, items_max: usize) -> Result<impl Iterator<Item = Value<'a, '_>>, Invalid> {
        if !self.text.starts_with('[') {
            return self.bad("must be an array");
        }
        let items: Vec<&'a RawValue> = match serde_json::from_str(self.text) {
            Ok(items) => items,
            Err(error) => return self.bad(error.to_string()),
        };
        if items.is_empty() || items.len() > items_max {
            return self.bad(format!("must have 1 to {items_max} items"));
        }
        let path = &self.path;
        let value =
            move |(index, raw): (usize, &'a RawValue)| Value { text: raw.get(), path: Path::Index(path, index) };
        Ok(items.into_iter().enumerate().map(value))
    }

    /// Whether it is an array of nothing, written without blanks.
    #[must_use]
    pub fn is_empty_array(&self) -> bool {
        self.text == "[]"
    }

    /// Says that it is not the array that it must be.
    #[must_use]
    pub fn no_array(&self) -> Invalid {
        Invalid { pointer: self.path.to_string(), detail: "must be an array".to_owned() }
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Result<bool, Invalid> {
        match self.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => self.bad("must be true or false"),
        }
    }

    /// A whole number from `min` to `max`, written without fraction or exponent.
    pub fn integer(&self, min: i64, max: i64) -> Result<i64, Invalid> {
        let number = self.text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        if !number || self.text.contains(['.', 'e', 'E']) {
            return self.bad("must be a whole number, written without fraction or exponent");
        }
        match self.text.parse() {
            Ok(integer) if (min..=max).contains(&integer) => Ok(integer),
            Ok(_) | Err(_) => self.bad(format!("must be from {min} to {max}")),
        }
    }

    /// An amount of money: 0 to 2^53 - 1 microdollars.
    pub fn micros(&self) -> Result<Micros, Invalid> {
        match Micros::new(self.integer(0, MICROS_MAX)?) {
            Some(micros) => Ok(micros),
            None => self.bad(format!("must be from 0 to {MICROS_MAX}")),
        }
    }

    fn string(&self) -> Result<Cow<'a, str>, Invalid> {
        if !self.text.starts_with('"') {
            return self.bad("must be a string");
        }
        // The text is JSON: without an escape, what is between the quotes is the string.
        if let Some(plain) = self.text.get(1..self.text.len().saturating_sub(1))
            && !plain.contains('\\')
        {
            return Ok(Cow::Borrowed(plain));
        }
        match serde_json::from_str::<Text<'a>>(self.text) {
            Ok(text) => Ok(text.0),
            Err(_) => self.bad("must be a string of Unicode characters"),
        }
    }

    /// Free text of at most `chars_max` characters.
    pub fn text(&self, chars_max: usize) -> Result<String, Invalid> {
        let text = self.string()?;
        if plain_text(&text, chars_max) {
            Ok(text.into_owned())
        } else {
            self.bad(format!("must have at most {chars_max} characters, none of them U+0000"))
        }
    }

    /// An id.
    pub fn id<T>(&self, parse: impl Fn(&str) -> Result<T, BadId>) -> Result<T, Invalid> {
        parse(&self.string()?).or_else(|error| self.bad(error.to_string()))
    }

    /// One of some words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Invalid> {
        let text = self.string()?;
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => Ok(*choice),
            None => self.bad(one_of(choices)),
        }
    }

    /// An instant.
    pub fn time(&self) -> Result<Timestamp, Invalid> {
        match time::parse_time(&self.string()?) {
            Some(at) => Ok(at),
            None => self.bad(time::TIME_RULE),
        }
    }

    /// A day.
    pub fn day(&self) -> Result<Day, Invalid> {
        match time::parse_day(&self.string()?) {
            Some(day) => Ok(day),
            None => self.bad(time::DAY_RULE),
        }
    }
}

/// Says which words may stand somewhere.
pub fn one_of<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    format!("must be one of {}", words.join(", "))
}

/// An object whose fields are all known.
#[derive(Debug)]
pub struct Object<'a, 'p, const N: usize> {
    known: [&'static str; N],
    values: [Option<&'a RawValue>; N],
    path: &'p Path<'p>,
}

impl<'a, const N: usize> Object<'a, '_, N> {
    /// A field that may be left out; `null` is a value.
    pub fn given(&self, name: &'static str) -> Option<Value<'a, '_>> {
        let raw = self.known.iter().zip(&self.values).find(|(known, _)| **known == name).and_then(|(_, raw)| *raw)?;
        Some(Value { text: raw.get(), path: Path::Field(self.path, name) })
    }

    /// A field that may be left out or `null`, which is the same.
    pub fn optional(&self, name: &'static str) -> Option<Value<'a, '_>> {
        self.given(name).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn required(&self, name: &'static str) -> Result<Value<'a, '_>, Invalid> {
        self.given(name).ok_or_else(|| self.invalid(name, "is required"))
    }

    /// A refusal of one of its fields.
    pub fn invalid(&self, name: &str, detail: &str) -> Invalid {
        Invalid { pointer: Path::Field(self.path, name).to_string(), detail: detail.to_owned() }
    }
}

struct Fields<'a, const N: usize> {
    known: [&'static str; N],
    values: [Option<&'a RawValue>; N],
    fault: Option<(String, &'static str)>,
}

impl<'a, const N: usize> Visitor<'a> for &mut Fields<'a, N> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key::<Text<'a>>()? {
            let fault = match self.known.iter().zip(&mut self.values).find(|(known, _)| **known == name) {
                Some((_, slot @ None)) => {
                    *slot = Some(map.next_value()?);
                    continue;
                }
                Some((_, Some(_))) => "is there twice",
                None => "is not a field of this object",
            };
            map.next_value::<IgnoredAny>()?;
            self.fault.get_or_insert((name.chars().take(NAME_SHOWN).collect(), fault));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Invalid, document};
    use crate::domain::id::KeyId;

    fn pointer<T>(read: Result<T, Invalid>) -> String {
        read.err().map_or_else(|| "taken".to_owned(), |invalid| invalid.pointer)
    }

    #[test]
    fn what_is_not_json_is_told_apart() {
        for body in ["", " ", "NaN", "{", "{\"a\":NaN}", "{'a':1}", "{\"a\":1}x", "{\"a\":01}", "Infinity"] {
            assert!(document(body.as_bytes()).is_err(), "{body}");
        }
        assert!(document(b"\xff").is_err());
        assert!(document(b" {\"a\" : 1e400 } ").is_ok());
    }

    #[test]
    fn unknown_and_repeated_fields_are_named() {
        let read = |body: &str| pointer(document(body.as_bytes()).unwrap().object(["a", "b"]));
        assert_eq!(read(r#"{"a":1,"b":2}"#), "taken");
        assert_eq!(read(r#"{"a":1,"c/d~":2}"#), "/c~1d~0");
        assert_eq!(read(r#"{"a":1,"a":1}"#), "/a");
        assert_eq!(read(r#"{"a":1,"\u0061":1}"#), "/a");
        assert_eq!(read("[1]"), "");
    }

    #[test]
    fn only_exact_whole_numbers_pass() {
        for good in ["0", "-0", "7", "9007199254740991"] {
            assert!(document(good.as_bytes()).unwrap().micros().is_ok(), "{good}");
        }
        for bad in [
            "null",
            "\"\"",
            "\"100\"",
            "1.5",
            "100.0",
            "1e2",
            "1e400",
            "-7",
            "9007199254740992",
            "9223372036854775808",
            "18446744073709551616",
            "true",
            "[]",
            "{}",
        ] {
            assert!(document(bad.as_bytes()).unwrap().micros().is_err(), "{bad}");
        }
    }

    #[test]
    fn pointers_lead_into_arrays() {
        let root = document(br#"{"leases":[{"vcpus":1},{"vcpus":0}]}"#).unwrap();
        let object = root.object(["leases"]).unwrap();
        let leases = object.required("leases").unwrap();
        let second = leases.items(10).unwrap().nth(1).unwrap();
        let lease = second.object(["vcpus", "id"]).unwrap();
        assert_eq!(pointer(lease.required("vcpus").unwrap().integer(1, 8)), "/leases/1/vcpus");
        assert_eq!(pointer(lease.required("id")), "/leases/1/id");
        assert_eq!(pointer(leases.items(1).map(|_| ())), "/leases");
    }

    #[test]
    fn texts_ids_and_nulls() {
        let read = |text: &str| document(text.as_bytes()).unwrap().text(3);
        assert_eq!(read(r#""äöü""#), Ok("äöü".to_owned()));
        assert!(read(r#""abcd""#).is_err());
        assert!(read(r#""\u0000""#).is_err());
        assert!(read(r#""\ud800""#).is_err());
        assert!(document(br#""a b""#).unwrap().id(KeyId::parse).is_err());
        let root = document(br#"{"a":null}"#).unwrap();
        let object = root.object(["a"]).unwrap();
        assert!(object.optional("a").is_none());
        assert!(object.given("a").is_some_and(|value| value.is_null()));
    }
}
