//! The agent in front of a real engine: its own meter, spool, pusher and client on a pretend host whose clocks the tests
//! move; and the program itself as a process.

mod cases;
mod cgroups;
mod failures;
mod faults;
mod process;
mod rig;
mod seeds;
mod tls;
mod world;
