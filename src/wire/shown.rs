//! Ids and quantities that answers tell as texts, written where they go: an answer has a dozen, and a string for each
//! would be a good part of what it costs.

use serde::{Serialize, Serializer};

use crate::domain::id::{AccountId, HostId, KeyId, LeaseId, SandboxId};

/// A value that is told by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<T>(pub T);

macro_rules! shown_id {
    ($($id:ty),*) => {
        $(impl Serialize for Shown<$id> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.0.as_str())
            }
        })*
    };
}
shown_id!(AccountId, HostId, KeyId, LeaseId, SandboxId);

impl Serialize for Shown<i128> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(itoa::Buffer::new().format(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;
    use crate::domain::id::LeaseId;

    #[test]
    fn a_value_is_a_json_string() {
        assert_eq!(serde_json::to_string(&[Shown(i128::MIN), Shown(0)]).unwrap(), format!(r#"["{}","0"]"#, i128::MIN));
        assert_eq!(serde_json::to_string(&Shown(LeaseId::parse("l-1").unwrap())).unwrap(), r#""l-1""#);
    }
}
