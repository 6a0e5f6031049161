//! The command line: parse it and run it.

fn main() {}
