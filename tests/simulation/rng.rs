//! Random choices that a seed fixes: `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
//! Generators").

/// A generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between two bounds, both included.
    pub(crate) fn within(&mut self, least: i64, most: i64) -> i64 {
        if most <= least {
            return least;
        }
        least + i64::try_from(self.next() % u64::try_from(most - least + 1).unwrap()).unwrap()
    }

    /// Yes in `percent` of a hundred.
    pub(crate) fn chance(&mut self, percent: i64) -> bool {
        self.within(0, 99) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let last = i64::try_from(from.len()).unwrap() - 1;
        (last >= 0).then(|| &from[usize::try_from(self.within(0, last)).unwrap()])
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = usize::try_from(self.within(0, i64::try_from(index).unwrap())).unwrap();
            items.swap(index, other);
        }
    }
}
