//! A seeded source of numbers (`SplitMix64`), so that a run can come again.

/// The source.
pub(crate) struct Random(u64);

impl Random {
    /// A source of its own for a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// An index of a list of `len` items, which is not empty.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).expect("a length");
        usize::try_from(self.below(len)).expect("an index")
    }

    /// Puts items into another order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, self.index(place + 1));
        }
    }
}
