//! A host with real cgroups and real busy processes, where cgroups can be made; elsewhere the reason is printed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::process::{Home, comes_to, document, engine};
use crate::harness::{Backend, quantity};

/// A group of its own with a busy process in it; both end with the test.
struct Busy {
    group: PathBuf,
    child: Child,
}

impl Busy {
    /// Starts a process that joins the group before it does anything.
    fn start(group: PathBuf, disk: &Path) -> Self {
        let program = env!("CARGO_BIN_EXE_runtab");
        let child = Command::new("sh")
            .args(["-c", "echo $$ > \"$1/cgroup.procs\" && exec \"$0\" sandbox-load busy --disk \"$2\"", program])
            .args([&group, disk])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        Self { group, child }
    }

    fn end(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir(&self.group));
    }
}

/// The root of a test's groups under a hierarchy of this kind, or why there is none.
fn root(kind: &str, option: &str) -> Result<PathBuf, String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let found = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let has_option = option.is_empty() || fields.get(3)?.split(',').any(|one| one == option);
        (*fields.get(2)? == kind && has_option).then(|| PathBuf::from(fields[1]))
    });
    let root = found.ok_or_else(|| format!("no {kind} {option} is mounted"))?;
    let root = root.join(format!("runtab-test-{}", std::process::id()));
    std::fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(root)
}

/// A real process is metered to the microsecond, its last reading after its end; then its group may go.
async fn metered(kind: &str, source: &str, option: &str, used_us: impl Fn(&Path) -> i64) {
    let root = match root(kind, option) {
        Ok(root) => root,
        Err(why) => {
            writeln!(std::io::stderr(), "skipped: cgroups can't be made here: {why}").expect("standard error");
            return;
        }
    };
    let (engine, begin) = engine(Backend::Sqlite).await;
    let mut home = Home::new(&engine);
    home.settings.push(("RUNTAB_AGENT_SOURCE", source.to_owned()));
    home.settings.push(("RUNTAB_AGENT_SOURCE_ROOT", root.display().to_string()));
    let disk = home.path("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mut document = document(begin);
    document["files"] = json!([disk]);
    home.write("s.json", &document);
    let running = home.start();
    let group = root.join("s");
    std::fs::create_dir(&group).expect("a group");
    let mut busy = Busy::start(group.clone(), &disk);
    // Half a second of CPU of a real process is on the bill while it runs.
    let asking = async { while quantity(&engine.admin.lease("acme", "l").await, "cpu_used_us") < 500_000 {} };
    tokio::time::timeout(Duration::from_mins(1), asking).await.expect("it is metered");
    busy.end();
    comes_to(&engine, i128::from(used_us(&group))).await;
    drop(busy);
    assert!(!group.exists(), "nothing holds the group");
    let storage: Value = engine.admin.sandbox("acme", "s").await;
    assert!(storage["storage_mib"].as_i64().is_some_and(|mib| mib >= 24), "{storage}");
    assert!(running.stop());
    assert!(!home.path("state").join("spool/rejected.ndjson").exists());
    std::fs::remove_dir(&root).expect("an empty root");
}

#[tokio::test]
async fn a_real_process_in_a_cgroup_v2() {
    let used_us = |group: &Path| {
        let text = std::fs::read_to_string(group.join("cpu.stat")).expect("a counter");
        let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).expect("a line");
        usage.parse().expect("a number")
    };
    metered("cgroup2", "cgroup2", "", used_us).await;
}

#[tokio::test]
async fn a_real_process_in_a_cgroup_v1() {
    let used_us = |group: &Path| {
        let text = std::fs::read_to_string(group.join("cpuacct.usage")).expect("a counter");
        text.trim().parse::<i64>().expect("a number") / 1_000
    };
    metered("cgroup", "cgroup1", "cpuacct", used_us).await;
}
