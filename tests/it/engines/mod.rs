//! Several engines on one PostgreSQL at once, and engines whose database fails them.
//!
//! What must hold: never one admission over a limit; never one under where no samples are in flight; and whatever the
//! database does, the answer is the truth or `unavailable`, within a bounded time, and works again by itself.

mod admissions;
mod control;
mod failures;
mod samples;
mod statements;
mod unavailable;

use std::any::Any;

use numbers::Random;

use crate::harness::{Api, Backend, Engine, Time};

/// Engines on one database, with their clocks at one time.
struct Fleet {
    first: Engine,
    others: Vec<(Api, Box<dyn Any>)>,
}

impl Fleet {
    /// So many engines, with the account `acme` (a card on file) and its key `ci`, free hours used up.
    async fn start(count: usize, now: Time) -> Self {
        let first = Engine::with_payer(Backend::Postgres, now).await;
        let beside = || {
            let (api, process) = first.beside();
            let process: Box<dyn Any> = Box::new(process);
            (api, process)
        };
        let others = (1..count).map(|_| beside()).collect();
        Self { first, others }
    }

    /// An engine by number, round and round.
    fn api(&self, index: usize) -> Api {
        match index % (self.others.len() + 1) {
            0 => self.first.admin.clone(),
            other => self.others[other - 1].0.clone(),
        }
    }

    async fn set_clock(&self, now: Time) {
        self.first.set_clock(now).await;
        for (api, _) in &self.others {
            assert_eq!(api.set_clock(now).await.0, 200);
        }
    }
}

/// Numbers that look random, the same in every run.
mod numbers {
    /// A generator; see Knuth's MMIX.
    pub(super) struct Random(pub(super) u64);

    impl Random {
        /// The next number below `bound`.
        pub(super) fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }
}
