//! The cases: faults of real systems and promises of the design, each with its right value.
//!
//! A name that begins with a letter and a number is a fault that real metering systems had, by its kind: A of admission,
//! S of samples, M of money, F of free hours, R of reads and access. Figures use the list prices; 2 vCPU, 4 GiB for an hour is 80,000 microdollars at worst and 31,250 idle; 1 vCPU, 1 GiB is 32,500
//! busy and 8,750 idle.

mod access;
mod admission;
mod credit;
mod figures;
mod focus;
mod free_hours;
mod gaps;
mod idempotency;
mod keys;
mod limits;
mod meter;
mod money;
mod months;
mod notes;
mod paging;
mod problems;
mod proof;
mod quotes;
mod reads;
mod report;
mod roles;
mod samples;
mod sandboxes;
mod unseen;
mod verify;
mod voids;
