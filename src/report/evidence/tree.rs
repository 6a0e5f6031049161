//! A Merkle tree over lines, as RFC 6962 section 2.1 has it, with SHA-256.
//!
//! A leaf is the hash of a zero byte and the line, a node that of a one byte and its two children: so no line can pass
//! for a node. Of `n` lines the left subtree has the largest power of two below `n`. The root of no lines is the hash of
//! nothing.

use sha2::{Digest as _, Sha256};

/// A SHA-256.
pub type Hash = [u8; 32];

const LEAF: [u8; 1] = [0];
const NODE: [u8; 1] = [1];

/// The hash of a line.
#[must_use]
pub fn leaf(line: &[u8]) -> Hash {
    Sha256::new().chain_update(LEAF).chain_update(line).finalize().into()
}

/// The hash of two hashes.
#[must_use]
pub fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update(NODE).chain_update(left).chain_update(right).finalize().into()
}

/// A tree that grows line by line; it holds one hash for each complete subtree, about 60 at most.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Complete subtrees from left to right: how many lines, and the root.
    complete: Vec<(u64, Hash)>,
}

impl Tree {
    /// Adds a line.
    pub fn push(&mut self, line: &[u8]) {
        let mut last = (1, leaf(line));
        while let Some((_, left)) = self.complete.pop_if(|(lines, _)| *lines == last.0) {
            // Never near the end of 64 bits: that many lines are not.
            last = (last.0.saturating_mul(2), node(&left, &last.1));
        }
        self.complete.push(last);
    }

    /// The root of the lines so far.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut subtrees = self.complete.iter().rev().map(|(_, root)| *root);
        let Some(last) = subtrees.next() else { return Sha256::digest([]).into() };
        subtrees.fold(last, |right, left| node(&left, &right))
    }
}

/// A hash in hexadecimal.
#[must_use]
pub fn hex(hash: &Hash) -> String {
    use std::fmt::Write as _;
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        // A String takes whatever is written.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Tree, hex, leaf, node};

    /// The definition of RFC 6962, by recursion.
    fn naive(lines: &[String]) -> [u8; 32] {
        match lines {
            [] => Tree::default().root(),
            [line] => leaf(line.as_bytes()),
            lines => {
                let split = lines.len().next_power_of_two() / 2;
                node(&naive(&lines[..split]), &naive(&lines[split..]))
            }
        }
    }

    #[test]
    fn it_is_the_tree_of_the_definition() {
        let lines: Vec<String> = (0..70).map(|line| format!("line {line}")).collect();
        let mut tree = Tree::default();
        for count in 0..lines.len() {
            assert_eq!(tree.root(), naive(&lines[..count]), "{count} lines");
            tree.push(lines[count].as_bytes());
        }
        assert_eq!(hex(&Tree::default().root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
