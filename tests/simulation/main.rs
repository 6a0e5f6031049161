//! A seeded simulation of the whole ledger, audited by a model that is written from DESIGN.md alone.
//!
//! A seed makes a history: commands in a random order under a clock of its own, each sent twice. The auditor takes the
//! same commands and says beforehand what each must answer; at checkpoints every view of the ledger must be the
//! auditor's, to the unit. A failure prints its seed; `RUNTAB_SIM_SEED=n` runs that one alone, `RUNTAB_SIM_SEEDS=n` runs
//! n seeds of each kind, `RUNTAB_SIM_STEPS=n` makes histories longer.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    reason = "tests"
)]

mod audit;
mod driver;
mod driver_admin;
mod driver_samples;
mod found;
mod model;
mod months;
#[path = "../properties/naive_storage.rs"]
mod naive_storage;
mod replayed;
mod rng;
mod send;
mod tables;

use driver::{Driver, Kind};

/// Seeds of each kind in a normal run: about a minute in all on one core, unoptimised.
const SEEDS: u64 = 8;
/// Steps of a history.
const STEPS: u64 = 220;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Says which seed it was when a history panics.
struct Told(Kind, u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history of kind {:?} with RUNTAB_SIM_SEED={} failed", self.0, self.1);
        }
    }
}

fn histories(kind: Kind) {
    let seeds = match setting("RUNTAB_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("RUNTAB_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let steps = setting("RUNTAB_SIM_STEPS").unwrap_or(STEPS);
    for seed in seeds {
        let _told = Told(kind, seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Driver::history(kind, seed, steps));
    }
}

#[test]
fn any_history_is_the_auditors() {
    histories(Kind::Any);
}

#[test]
fn in_an_orderly_history_no_limit_is_ever_passed() {
    histories(Kind::Orderly);
}

#[test]
fn the_invoices_of_a_year_tile_it_and_each_is_what_its_evidence_makes() {
    histories(Kind::Year);
}

#[test]
fn a_history_with_its_samples_shuffled_and_batched_anew_bills_the_same() {
    histories(Kind::Replayed);
}
