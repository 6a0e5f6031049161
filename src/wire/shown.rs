//! Ids and quantities that answers tell as texts, written where they go: an answer has a dozen, and a string for each
//! would be a good part of what it costs.

use std::fmt::Display;

use serde::{Serialize, Serializer};

/// A value that is told by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<T>(pub T);

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    #[test]
    fn a_value_is_a_json_string() {
        assert_eq!(serde_json::to_string(&[Shown(i128::MIN), Shown(0)]).unwrap(), format!(r#"["{}","0"]"#, i128::MIN));
        assert_eq!(serde_json::to_string(&Shown(r#"a "b""#)).unwrap(), r#""a \"b\"""#);
    }
}
