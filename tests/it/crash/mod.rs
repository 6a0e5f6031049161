//! Case R5, a crash between two writes: engines that are killed again and again bill what undisturbed ones bill.
//!
//! Kills come at requests that a seed chooses, not at times, and clients retry with the same ids. Accounts are served
//! at once, each by a client of its own that waits for every answer: so the history of an account, and with it every
//! figure, is the same in every run. `RUNTAB_TEST_KILLS` sets how many kills (default 20), `RUNTAB_TEST_SEED` the seed; the
//! long form is 500, with `./test --profile long`.

mod fleet;
mod history;
mod r5_crashes;
pub(crate) mod random;
