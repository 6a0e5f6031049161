//! The demo's pretend sandboxes: real child processes that burn real CPU and take real disk.
//!
//! A child ends in every case: it is killed when its handle goes, and it ends by itself when its standard input
//! closes, which it does even if the demo is killed outright. It obeys `pause` and `go` on its standard input.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::agent::cgroup::mount_point;
use crate::agent::source::{CpuSource, Reading, SourceError};
use crate::agent::storage::{allocated_bytes, mebibytes};

/// What kind of load a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Nearly always at work.
    Busy,
    /// Hardly ever.
    Idle,
    /// Now and then, for a second and a half.
    Bursty,
}

impl Load {
    /// How it works: milliseconds at work, milliseconds at rest, disk at the start in MiB, and how much that grows
    /// each round.
    fn rhythm(self) -> (u64, u64, usize, usize) {
        match self {
            Self::Busy => (850, 150, 24, 1),
            Self::Idle => (5, 995, 4, 0),
            Self::Bursty => (1_500, 2_500, 12, 0),
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Bursty => "bursty",
        }
    }
}

/// The flags of the hidden `runtab sandbox-load`.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// What kind of load
    #[arg(value_enum)]
    load: Load,
    /// The folder that is its disk
    #[arg(long)]
    disk: PathBuf,
}

/// How long a load works or rests before it looks at its orders.
const SLICE: Duration = Duration::from_millis(50);

/// Is such a child, until standard input closes.
pub fn be_a_load(args: &LoadArgs) -> anyhow::Result<()> {
    let (working_ms, resting_ms, disk_mib, growth_mib) = args.load.rhythm();
    let mut disk = File::create(args.disk.join("disk.img")).context("no disk")?;
    grow(&mut disk, disk_mib)?;
    let (orders, received) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if orders.send(line == "go").is_err() {
                break;
            }
        }
    });
    let mut working = true;
    loop {
        let busy_ms = if working { working_ms } else { 0 };
        if !spend(busy_ms, true, &received, &mut working) || !spend(resting_ms, false, &received, &mut working) {
            return Ok(());
        }
        if working {
            grow(&mut disk, growth_mib)?;
        }
    }
}

/// Works or rests for a time, and takes orders meanwhile; `false` once nobody is left to give any.
fn spend(ms: u64, work: bool, orders: &Receiver<bool>, working: &mut bool) -> bool {
    let began = now();
    let whole = Duration::from_millis(ms);
    let mut sum: u64 = 1;
    loop {
        match orders.try_recv() {
            Ok(order) => *working = order,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return false,
        }
        let left = whole.saturating_sub(began.elapsed()).min(SLICE);
        if left.is_zero() || (work && !*working) {
            return true;
        }
        if !work {
            std::thread::sleep(left);
            continue;
        }
        let slice = now();
        while slice.elapsed() < left {
            sum = (0..1_000_u64).fold(sum, |sum, step| std::hint::black_box(sum.rotate_left(5) ^ step));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a load's own rhythm; nothing is metered by it")]
fn now() -> Instant {
    Instant::now()
}

fn grow(disk: &mut File, mib: usize) -> anyhow::Result<()> {
    // Not zeros: some file systems would take no blocks for them.
    let block = vec![0xA5_u8; 65_536];
    for _ in 0..mib.saturating_mul(16) {
        disk.write_all(&block)?;
    }
    disk.sync_data()?;
    Ok(())
}

/// A running child with the means to meter it, as a host would.
#[derive(Debug)]
pub struct Sandbox {
    child: Child,
    orders: Option<ChildStdin>,
    disk: PathBuf,
    source: CpuSource,
    group: Option<PathBuf>,
}

impl Sandbox {
    /// Starts a child of this program, with a folder of its own under `folder`.
    pub fn start(load: Load, folder: &Path) -> anyhow::Result<Self> {
        let disk = folder.join(load.name());
        std::fs::create_dir(&disk).with_context(|| disk.display().to_string())?;
        let program = std::env::current_exe().context("the program's own path")?;
        let mut command = Command::new(program);
        command.arg("sandbox-load").arg(load.name()).arg("--disk").arg(&disk);
        // A group of its own, so that Ctrl-C reaches the demo, which then ends it in order.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().context("can't start a pretend sandbox")?;
        let orders = child.stdin.take();
        let group = own_group(load.name(), child.id());
        let source = group.clone().map_or(CpuSource::Process(child.id()), CpuSource::Cgroup);
        Ok(Self { child, orders, disk, source, group })
    }

    /// How its CPU is read, for people.
    #[must_use]
    pub fn metered_by(&self) -> &'static str {
        match self.source {
            CpuSource::Cgroup(_) => "cgroup v2",
            CpuSource::Cgroup1(_) => "cgroup v1",
            CpuSource::Process(_) | CpuSource::Tree(_) => "/proc",
        }
    }

    /// Its CPU counter now.
    pub fn read(&self) -> Result<Reading, SourceError> {
        self.source.read()
    }

    /// Its disk now, in MiB.
    pub fn disk_mib(&self) -> std::io::Result<i64> {
        allocated_bytes(&self.disk).map(mebibytes)
    }

    /// Makes it rest, or work again.
    pub fn order(&mut self, work: bool) -> std::io::Result<()> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        orders.write_all(if work { b"go\n" } else { b"pause\n" })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and only its body to collect.
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(group) = &self.group {
            drop(std::fs::remove_dir(group));
        }
    }
}

/// A cgroup v2 of its own with the process in it, where this machine lets us make one.
fn own_group(name: &str, pid: u32) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let group = mount_point(&mounts)?.join(format!("runtab-demo-{pid}-{name}"));
    std::fs::create_dir(&group).ok()?;
    let joined = std::fs::write(group.join("cgroup.procs"), pid.to_string());
    if joined.is_ok() && CpuSource::Cgroup(group.clone()).read().is_ok() {
        Some(group)
    } else {
        // Leave nothing behind; a group that can't be left empty is the system's to clean.
        drop(std::fs::remove_dir(&group));
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{grow, spend};
    use crate::agent::storage::{allocated_bytes, mebibytes};

    #[test]
    fn a_load_ends_when_its_orders_end() {
        let (orders, received) = channel();
        let mut working = true;
        assert!(spend(1, true, &received, &mut working));
        orders.send(false).unwrap();
        assert!(spend(60_000, true, &received, &mut working), "a pause ends the work at once");
        assert!(!working);
        drop(orders);
        assert!(!spend(60_000, false, &received, &mut working));
    }

    #[test]
    fn its_disk_takes_what_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = std::fs::File::create(directory.path().join("disk.img")).unwrap();
        grow(&mut disk, 2).unwrap();
        assert!((2..=3).contains(&mebibytes(allocated_bytes(directory.path()).unwrap())));
    }
}
