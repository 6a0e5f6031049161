//! The CPU curve: readings to used and billable CPU per clock minute, summed per hour.
