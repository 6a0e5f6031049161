//! The evidence of an invoice as a file and as a digest (docs/EVIDENCE.md).
//!
//! The file is lines of JSON: a header, then the records of [`crate::domain::proof`] in their order. Canonical: a
//! record has one text, so equal evidence is equal bytes. Each line is a leaf of a Merkle tree ([`tree`]); the root is
//! the digest that the invoice carries. Nothing here holds more than a line.

mod text;
pub mod tree;

use crate::domain::invoice::Digests;
use crate::domain::proof::{ProofHead, Record};
use tree::Tree;

pub use text::{head_line, record_line};

/// Digests evidence as its records come.
#[derive(Debug, Default)]
pub struct Digester {
    terms: Tree,
    events: Tree,
    line: String,
}

impl Digester {
    /// Takes the next record; answers its line, without the line's end.
    pub fn take(&mut self, record: &Record) -> &str {
        self.line.clear();
        record_line(&mut self.line, record);
        let tree = if record.is_term() { &mut self.terms } else { &mut self.events };
        tree.push(self.line.as_bytes());
        &self.line
    }

    /// What is digested so far, to be completed with the header.
    #[must_use]
    pub fn finish(&self) -> Body {
        Body { terms: self.terms.clone(), events: self.events.root() }
    }
}

/// The digests of all records but credits, which come last of the terms; they and the header are still to come.
#[derive(Clone, Debug)]
pub struct Body {
    terms: Tree,
    events: tree::Hash,
}

impl Body {
    /// With the records of credits (where they were not among the others) and the header, which has the invoice's
    /// number: the digests that the invoice carries.
    #[must_use]
    pub fn with_head(&self, head: &ProofHead, credits: &[Record]) -> Digests {
        let mut terms = self.terms.clone();
        let mut line = String::new();
        for record in credits {
            line.clear();
            record_line(&mut line, record);
            terms.push(line.as_bytes());
        }
        line.clear();
        head_line(&mut line, head);
        let terms = terms.root();
        let records = tree::node(&terms, &self.events);
        Digests { evidence: tree::node(&tree::leaf(line.as_bytes()), &records), terms }
    }
}
