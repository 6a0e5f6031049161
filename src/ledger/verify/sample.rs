//! Choosing accounts at random, each as likely as any other, from one pass over all of them.

use std::collections::BTreeSet;

use crate::domain::id::AccountId;

/// How many accounts to choose, and from where chance begins: the same seed chooses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// How many.
    pub accounts: u32,
    /// Any number.
    pub seed: u64,
}

/// A reservoir: it holds the accounts chosen of those that came so far.
#[derive(Debug)]
pub(super) struct Reservoir {
    most: usize,
    came: u64,
    state: u64,
    chosen: Vec<AccountId>,
}

impl Reservoir {
    pub(super) fn new(sampled: Sampled) -> Self {
        let most = usize::try_from(sampled.accounts).unwrap_or(usize::MAX);
        Self { most, came: 0, state: sampled.seed, chosen: Vec::new() }
    }

    /// `SplitMix64`: good enough to choose by.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state.wrapping_shr(30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed.wrapping_shr(27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed.wrapping_shr(31)
    }

    /// Another account came.
    pub(super) fn take(&mut self, account: AccountId) {
        self.came = self.came.saturating_add(1);
        if self.chosen.len() < self.most {
            self.chosen.push(account);
            return;
        }
        // A remainder is a little uneven: far less than anybody could tell.
        let place = usize::try_from(self.next().checked_rem(self.came).unwrap_or(0)).unwrap_or(usize::MAX);
        if let Some(chosen) = self.chosen.get_mut(place) {
            *chosen = account;
        }
    }

    /// Those that were chosen.
    pub(super) fn into_chosen(self) -> BTreeSet<AccountId> {
        self.chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Reservoir, Sampled};
    use crate::domain::id::AccountId;

    fn choose(accounts: u32, seed: u64) -> Vec<usize> {
        let mut reservoir = Reservoir::new(Sampled { accounts, seed });
        for index in 0..20 {
            reservoir.take(AccountId::parse(&format!("{index:02}")).unwrap());
        }
        reservoir.into_chosen().iter().map(|id| id.as_str().parse().unwrap()).collect()
    }

    #[test]
    fn every_account_has_its_turn_and_a_seed_decides() {
        assert_eq!(choose(30, 1), (0..20).collect::<Vec<_>>());
        assert_eq!((choose(5, 7).len(), choose(5, 7)), (5, choose(5, 7)));
        let mut counts = [0_u32; 20];
        for seed in 0..4_000 {
            for index in choose(5, seed) {
                counts[index] += 1;
            }
        }
        // A thousand each are expected; five standard deviations are 137.
        assert!(counts.iter().all(|count| (860..1_140).contains(count)), "{counts:?}");
    }
}
