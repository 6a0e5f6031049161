//! The meter's thread: readings block on files and disks, so they have a thread of their own, which takes orders.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use super::clock::Time;
use super::host::Host;
use super::meter::Meter;
use super::sandbox::{Key, Place, Sandbox};

/// What the meter is asked.
#[derive(Debug)]
pub enum Order {
    /// Take a sandbox's document; answered when its baseline is on disk.
    Put(Box<Sandbox>, oneshot::Sender<io::Result<()>>),
    /// Finish a sandbox; answered when its last reading is on disk: whether there was one.
    Remove(Key, oneshot::Sender<io::Result<bool>>),
    /// Say what is seen.
    List(oneshot::Sender<Value>),
    /// Documents have changed.
    Documents,
    /// Something has happened to these sandboxes' groups.
    Groups(BTreeSet<Key>),
    /// Labels were refused as being of the future.
    ReleaseLabels,
    /// Take a last reading of everything, remember it, and stop.
    Stop,
}

/// Reads when it is time and does what it is told, until it is told to stop or nobody is left to tell it anything.
/// `places` is told after each round where the counters are.
pub fn run<H: Host>(
    mut meter: Meter<H>,
    time: &dyn Time,
    inbox: &Receiver<Order>,
    places: &mut dyn FnMut(&mut H, BTreeMap<Key, Place>),
) {
    let mut due_boot_ms = time.now().boot_ms;
    loop {
        let now = time.now();
        if now.boot_ms >= due_boot_ms {
            let there = meter.round(None, now);
            places(meter.host(), there);
            let now = time.now();
            due_boot_ms = now.boot_ms.saturating_add(meter.until_round(now));
        }
        let left_ms = due_boot_ms.saturating_sub(time.now().boot_ms).max(0);
        match inbox.recv_timeout(Duration::from_millis(left_ms.unsigned_abs())) {
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(order) => obey(&mut meter, order, time, places),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let now = time.now();
    meter.round(None, now);
    meter.save(now);
}

fn obey<H: Host>(
    meter: &mut Meter<H>,
    order: Order,
    time: &dyn Time,
    places: &mut dyn FnMut(&mut H, BTreeMap<Key, Place>),
) {
    // Who asked may have gone: then nobody wants the answer.
    match order {
        Order::Put(sandbox, answer) => drop(answer.send(meter.put(&sandbox, time.now()))),
        Order::Remove(key, answer) => drop(answer.send(meter.remove(&key, time.now()))),
        Order::List(answer) => {
            drop(answer.send(meter.list()));
            return;
        }
        Order::Documents => drop(meter.follow(time.now())),
        Order::Groups(keys) => drop(meter.round(Some(&keys), time.now())),
        Order::ReleaseLabels => {
            meter.release_labels();
            return;
        }
        Order::Stop => return,
    }
    let there = meter.kept().iter().map(|(key, kept)| (key.clone(), kept.sandbox.place.clone())).collect();
    places(meter.host(), there);
}
