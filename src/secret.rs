//! Secrets: bearer tokens of operators and customers' keys.
//!
//! A secret is a readable prefix that tells its kind, 256 random bits in hexadecimal, and a checksum, so that a typing
//! error or a made-up token is told without asking the ledger, and scanners can find leaked ones. Only its SHA-256 is
//! kept: 256 random bits need no slow hash.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What is kept of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretDigest {
    /// SHA-256 of the whole token text.
    pub sha256: [u8; 32],
}

/// A number that nobody can foresee, for choosing by chance.
pub fn random_seed() -> Result<u64, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What every secret begins with.
pub const SECRET_PREFIX: &str = "runtab_";
const RANDOM_CHARS: usize = 64;
const CHECKSUM_CHARS: usize = 8;

/// Whose secret it is; only people and scanners read that from the prefix, the ledger decides by the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A customer's key.
    Key,
    /// An operator's token for everything.
    Admin,
    /// The control plane's token.
    ControlPlane,
    /// A host's token.
    Host,
}

impl SecretKind {
    const ALL: [Self; 4] = [Self::Key, Self::Admin, Self::ControlPlane, Self::Host];

    /// The whole prefix.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Key => "runtab_key_",
            Self::Admin => "runtab_admin_",
            Self::ControlPlane => "runtab_control_",
            Self::Host => "runtab_host_",
        }
    }
}

/// A new secret; its text is shown once and never logged.
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(redacted)")
    }
}

impl Secret {
    /// A secret of the operating system's randomness; its error when there is none.
    pub fn generate(kind: SecretKind) -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        Ok(Self::from_random(kind, &random))
    }

    /// A secret of given random bits.
    #[must_use]
    pub fn from_random(kind: SecretKind, random: &[u8; 32]) -> Self {
        let body = format!("{}{}", kind.prefix(), hex(random));
        let checksum = checksum(&body);
        Self(body + &checksum)
    }

    /// The text, to be shown to its owner.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    /// What is kept of it.
    #[must_use]
    pub fn digest(&self) -> SecretDigest {
        SecretDigest { sha256: Sha256::digest(self.0.as_bytes()).into() }
    }
}

/// The digest of a presented text; `None` when it can't be a secret of ours.
#[must_use]
pub fn digest_of(text: &str) -> Option<SecretDigest> {
    let random = SecretKind::ALL.iter().find_map(|kind| text.strip_prefix(kind.prefix()))?;
    let (digits, given) = random.split_at_checked(RANDOM_CHARS)?;
    let clean = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !clean(digits) || given.len() != CHECKSUM_CHARS {
        return None;
    }
    // One pass: the digest of the whole goes on from where the checksum's ends.
    let mut hash = Sha256::new_with_prefix(text.strip_suffix(given)?);
    let right = shown(hash.clone());
    let same: bool = right.as_bytes().ct_eq(given.as_bytes()).into();
    hash.update(given);
    same.then(|| SecretDigest { sha256: hash.finalize().into() })
}

/// The first 32 bits of the SHA-256 of what comes before, in hexadecimal.
fn checksum(body: &str) -> String {
    shown(Sha256::new_with_prefix(body))
}

fn shown(hash: Sha256) -> String {
    let digest: [u8; 32] = hash.finalize().into();
    digest.first_chunk::<4>().map(|head| hex(head)).unwrap_or_default()
}

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Secret, SecretKind, digest_of};

    #[test]
    fn a_secret_is_known_again_by_its_digest() {
        for kind in SecretKind::ALL {
            let secret = Secret::generate(kind).unwrap();
            let digest = secret.digest();
            assert_eq!(format!("{secret:?}"), "Secret(redacted)");
            let text = secret.into_text();
            assert!(text.starts_with(kind.prefix()) && text.len() == kind.prefix().len() + 72);
            assert_eq!(digest_of(&text), Some(digest));
        }
    }

    #[test]
    fn a_changed_secret_is_none() {
        let text = Secret::from_random(SecretKind::Key, &[7; 32]).into_text();
        assert!(digest_of(&text).is_some());
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            assert_eq!(digest_of(&String::from_utf8(bytes).unwrap()), None, "{place}");
        }
        for bad in ["", "runtab_key_", &text[..text.len() - 1], &format!("{text}0"), &text.to_uppercase(), "ä"] {
            assert_eq!(digest_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn two_secrets_differ() {
        let make = || Secret::generate(SecretKind::Admin).unwrap().into_text();
        assert_ne!(make(), make());
    }
}
