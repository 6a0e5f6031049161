//! Parts of samples: joined the same, however one sender or several shards cut them into requests.

use proptest::prelude::*;
use runtab::domain::id::{AccountId, LeaseId, SandboxId};
use runtab::domain::part::{JoinRules, Joined, Part, PartFault, PartKind, Piece, Series, join};
use runtab::domain::sample::{Reading, Seen};
use runtab::domain::time::Timestamp;
use runtab::domain::units::MebiBytes;

const RULES: JoinRules =
    JoinRules { start: true, memory: true, cpu: Series::One, storage: Series::Sum, wait_ms: 1_000 };

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

fn part(kind: PartKind, at_ms: i64, series: &str, value: i64) -> Part {
    Part {
        account: AccountId::parse("a").unwrap(),
        sandbox: SandboxId::parse("s").unwrap(),
        lease: (kind != PartKind::Storage).then(|| LeaseId::parse("l").unwrap()),
        kind,
        at: at(at_ms),
        series: series.to_owned(),
        value,
        epoch: None,
        received_at: at(at_ms),
        host: None,
    }
}

/// What a store and an engine make of requests, one after another; then all that waits is released.
fn arrive(requests: &[Vec<Part>], rules: &JoinRules, now: Timestamp) -> (Vec<Seen>, Vec<PartFault>) {
    let (mut kept, mut next): (Vec<Piece>, i64) = (Vec::new(), 0);
    let (mut seen, mut faults) = (Vec::new(), Vec::new());
    let last = at(now.ms() + rules.wait_ms);
    let rounds = requests.iter().map(|parts| (parts.clone(), now)).chain([(Vec::new(), last)]);
    for (parts, now) in rounds {
        let fresh = parts.len();
        let arrived = parts.into_iter().map(|part| Piece { part: Part { received_at: now, ..part }, kept: None });
        let Joined { whole, aside, keep, spent, taken } =
            join(kept.iter().cloned().chain(arrived).collect(), rules, now);
        let counted = whole.iter().map(|whole| whole.fresh).sum::<usize>()
            + aside.iter().filter(|(_, _, fresh)| *fresh).count()
            + keep.len()
            + taken;
        assert_eq!(counted, fresh, "each new part is in one place");
        kept.retain(|piece| !spent.contains(&piece.kept.unwrap()));
        for part in keep {
            next += 1;
            kept.push(Piece { part, kept: Some(next) });
        }
        seen.extend(whole.into_iter().map(|whole| whole.sample.seen));
        faults.extend(aside.into_iter().map(|(_, fault, _)| fault));
    }
    assert_eq!(kept, [], "nothing waits for ever");
    seen.sort_by_key(|seen| (seen.at(), matches!(seen, Seen::AtRest(_))));
    (seen, faults)
}

fn readings(seen: &[Seen]) -> Vec<Seen4> {
    let reading = |seen: &Seen| match seen {
        Seen::Running(_, Reading { at, epoch, cpu_usage_us, memory, .. }) => {
            Some((at.ms(), *epoch, *cpu_usage_us, memory.map(MebiBytes::mib)))
        }
        Seen::AtRest(_) => None,
    };
    seen.iter().filter_map(reading).collect()
}

fn disks(seen: &[Seen]) -> Vec<(i64, i64)> {
    let disk = |seen: &Seen| match seen {
        Seen::AtRest(report) => Some((report.at.ms(), report.storage.mib())),
        Seen::Running(..) => None,
    };
    seen.iter().filter_map(disk).collect()
}

/// Two counters one after the other, a look at the start after each reading, memory and two devices.
fn scrapes() -> Vec<Part> {
    let mut parts = Vec::new();
    for (seen_at, start, cpu) in
        [(20_000, 9_000, 5), (30_000, 9_000, 6), (40_000, 31_000, 6), (50_000, 31_000, 9), (60_000, 31_000, 11)]
    {
        // cAdvisor's counters have the time of its last look, the start that of the scrape.
        parts.push(part(PartKind::Cpu, seen_at - 700, "c", cpu * 1_000_000));
        parts.push(part(PartKind::Start, seen_at, "", start));
        parts.push(part(PartKind::Memory, seen_at, "", 512 * 1_048_576));
        parts.push(part(PartKind::Storage, seen_at - 700, "sda", 1_048_576 * cpu));
        parts.push(part(PartKind::Storage, seen_at - 700, "sdb", 1));
    }
    parts
}

/// Instant, epoch, CPU and memory.
type Seen4 = (i64, i64, i64, Option<i64>);

fn expected() -> (Vec<Seen4>, Vec<(i64, i64)>) {
    let cpu = [(19_300, 9_000, 5), (29_300, 9_000, 6), (39_300, 31_000, 6), (49_300, 31_000, 9), (59_300, 31_000, 11)];
    let readings = cpu.map(|(at, epoch, cpu)| (at, epoch, cpu * 1_000_000, Some(512)));
    (readings.into(), cpu.map(|(at, _, cpu)| (at, cpu + 1)).into())
}

proptest! {
    /// Cut into requests anywhere after the first scrape, each series in its order (as senders keep it), the same samples
    /// come out, however far one shard is behind another.
    #[test]
    fn any_cut_gives_the_same_samples(shards in prop::collection::vec(0..3_usize, 5), cuts in prop::collection::vec(1..7_usize, 30)) {
        // Each series is in one shard; a shard sends in order, and the shards take turns.
        let kinds = [(PartKind::Cpu, "c"), (PartKind::Start, ""), (PartKind::Memory, ""), (PartKind::Storage, "sda"), (PartKind::Storage, "sdb")];
        let mut queues: Vec<Vec<Part>> = vec![Vec::new(); 3];
        let mut all = scrapes();
        let rest = all.split_off(5);
        for part in rest {
            let series = kinds.iter().position(|(kind, series)| *kind == part.kind && *series == part.series).unwrap();
            queues[shards[series]].push(part);
        }
        let mut requests = vec![all];
        for (turn, cut) in cuts.iter().cycle().enumerate() {
            let queue = &mut queues[turn % 3];
            let rest = queue.split_off((*cut).min(queue.len()));
            requests.push(std::mem::replace(queue, rest));
            if queues.iter().all(Vec::is_empty) {
                break;
            }
        }
        let (seen, faults) = arrive(&requests, &RULES, at(60_000));
        prop_assert_eq!(faults, []);
        prop_assert_eq!((readings(&seen), disks(&seen)), expected());
    }
}

#[test]
fn a_counter_whose_start_nobody_told_is_set_aside() {
    let cpu = |at_ms| part(PartKind::Cpu, at_ms, "c", 1);
    let start = |at_ms, value| part(PartKind::Start, at_ms, "", value);
    let memory = part(PartKind::Memory, 9_000, "", 0);
    for starts in [vec![], vec![start(4_999, 1_000)], vec![start(6_000, 5_001)]] {
        let request = [vec![cpu(5_000), memory.clone()], starts].concat();
        assert_eq!(arrive(&[request], &RULES, at(9_000)), (vec![], vec![PartFault::NoEpoch]));
    }
    // Of two counters that were seen later, the one that ran then.
    let both = vec![cpu(5_000), memory, start(6_000, 1_000), start(9_000, 5_001)];
    assert_eq!(readings(&arrive(&[both], &RULES, at(9_000)).0), [(5_000, 1_000, 1, None)]);
}

#[test]
fn memory_that_never_comes_is_the_leases() {
    let request = vec![part(PartKind::Cpu, 5_000, "c", 1), part(PartKind::Start, 5_000, "", 1_000)];
    assert_eq!(readings(&arrive(&[request], &RULES, at(9_000)).0), [(5_000, 1_000, 1, None)]);
}

#[test]
fn cpus_are_summed_when_each_has_gone_on() {
    let rules = JoinRules { start: false, memory: false, cpu: Series::Sum, ..RULES };
    let cpu = |at_ms, series: &str, value| part(PartKind::Cpu, at_ms, series, value);
    let requests = [
        vec![cpu(1_000, "0", 10), cpu(1_000, "1", 1)],
        vec![cpu(2_000, "0", 20)],
        vec![cpu(2_000, "1", 2), cpu(2_000, "2", 5), cpu(3_000, "0", 30)],
        vec![cpu(3_000, "1", 3), cpu(3_000, "2", 6)],
    ];
    let (seen, faults) = arrive(&requests, &rules, at(3_000));
    assert_eq!(faults, []);
    assert_eq!(readings(&seen), [(1_000, 0, 11, None), (2_000, 0, 27, None), (3_000, 0, 39, None)]);
}

#[test]
fn several_series_of_one_number_are_told_apart_or_summed_never_mixed() {
    let rules = JoinRules { storage: Series::One, ..RULES };
    let disk = |series: &str, value| part(PartKind::Storage, 1_000, series, value);
    let two = vec![disk("sda", 1), disk("sdb", 1)];
    assert_eq!(arrive(&[two], &rules, at(1_000)), (vec![], vec![PartFault::Ambiguous; 2]));
    // The same again says nothing new, another value contradicts.
    let thrice = vec![disk("sda", 1), disk("sda", 1), disk("sda", 2)];
    let (seen, faults) = arrive(&[thrice], &rules, at(1_000));
    assert_eq!((disks(&seen), faults), (vec![(1_000, 1)], vec![PartFault::Conflict]));
}

#[test]
fn what_is_too_large_is_set_aside() {
    let rules = JoinRules { start: false, memory: false, cpu: Series::Sum, ..RULES };
    let cpu = |series: &str| part(PartKind::Cpu, 1_000, series, i64::MAX);
    let disk = part(PartKind::Storage, 1_000, "sda", i64::MAX);
    let (seen, faults) = arrive(&[vec![cpu("0"), cpu("1"), disk]], &rules, at(1_000));
    assert_eq!((seen, faults), (vec![], vec![PartFault::TooLarge; 3]));
}
