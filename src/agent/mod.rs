//! The agent's side: how readings of a sandbox are taken on the host that runs it.

pub mod cgroup;
pub mod proc;
pub mod source;
