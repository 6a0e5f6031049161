//! A second opinion: the bill of a Bitbrains trace by the book, slow and simple, over exact rationals.
//!
//! Shares nothing with the program: it reads the text itself, cuts leases itself, judges samples itself, and computes
//! minute by minute what a minute costs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use num_bigint::BigInt;
use num_rational::BigRational;

/// Totals of one trace, in the units of the ledger, and its exact list price in microdollars.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Bill {
    pub(crate) run_ms: i128,
    pub(crate) cpu_used_us: i128,
    pub(crate) cpu_us: i128,
    pub(crate) memory_mib_ms: i128,
    pub(crate) list_micros: BigRational,
    pub(crate) leases: usize,
    pub(crate) accepted: usize,
    pub(crate) duplicates: usize,
    pub(crate) refused: BTreeMap<&'static str, usize>,
}

struct Row {
    line: usize,
    at_ms: i128,
    vcpus: i128,
    rate: BigRational,
    memory_mib: i128,
}

fn ratio(numerator: i128, denominator: i128) -> BigRational {
    BigRational::new(BigInt::from(numerator), BigInt::from(denominator))
}

fn to_i128(number: &BigRational) -> i128 {
    number.to_integer().to_string().parse().unwrap()
}

fn floor(number: &BigRational) -> i128 {
    to_i128(&number.floor())
}

fn ceil(number: &BigRational) -> i128 {
    to_i128(&number.ceil())
}

fn number(text: &str) -> BigRational {
    let (digits, exponent) = text.split_once('E').map_or((text, 0), |(digits, exp)| (digits, exp.parse().unwrap()));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled: BigInt = format!("{whole}{fraction}").parse().unwrap();
    let power = exponent - i32::try_from(fraction.len()).unwrap();
    let shift = BigInt::from(10).pow(power.unsigned_abs());
    if power < 0 { BigRational::new(unscaled, shift) } else { BigRational::from_integer(unscaled * shift) }
}

fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = text
        .lines()
        .enumerate()
        .skip(1)
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            let cells: Vec<&str> = line.split(";\t").collect();
            let cores = number(cells[1]);
            Row {
                line: index + 1,
                at_ms: floor(&(number(cells[0]) * ratio(1_000, 1))),
                vcpus: ceil(&cores),
                rate: number(cells[4]) * cores * ratio(10, 1),
                memory_mib: ceil(&(number(cells[5]) * ratio(1, 1_024))),
            }
        })
        .collect();
    rows.sort_by_key(|row| (row.at_ms, row.line));
    rows
}

/// A sample of a lease: when, the counter, the memory.
pub(crate) type Sample = (i128, i128, i128);

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) vcpus: i128,
    pub(crate) memory_mib: i128,
    pub(crate) start_ms: i128,
    pub(crate) end_ms: i128,
    pub(crate) samples: Vec<Sample>,
}

/// The leases of a trace with the samples that a host would have sent, in order.
fn leases(rows: &[Row]) -> Vec<Lease> {
    let hour = 3_600_000;
    let longest = 31 * 24 * hour;
    let mut times: Vec<i128> = rows.iter().map(|row| row.at_ms).collect();
    times.dedup();
    let by_time: BTreeMap<i128, Vec<&Row>> = times.iter().map(|time| (*time, Vec::new())).collect();
    let by_time = rows.iter().fold(by_time, |mut map, row| {
        map.get_mut(&row.at_ms).unwrap().push(row);
        map
    });
    let mut counter = BigRational::from_integer(BigInt::from(0));
    let mut done: Vec<Lease> = Vec::new();
    let mut running: Option<Lease> = None;
    let mut previous: Option<&Row> = None;
    for (index, time) in times.iter().enumerate() {
        let said = &by_time[time];
        let first = said[0];
        let next = times.get(index + 1);
        let heard = next.is_some_and(|next| next - time <= hour);
        let is_on = first.vcpus > 0;
        let mut told: Vec<Sample> = Vec::new();
        if let Some(mut lease) = running.take() {
            counter += &previous.unwrap().rate * ratio(time - previous.unwrap().at_ms, 1);
            told.extend(said.iter().map(|row| (*time, floor(&counter), row.memory_mib)));
            lease.samples.append(&mut told);
            let same = is_on && first.vcpus == lease.vcpus && first.memory_mib == lease.memory_mib;
            if same && heard && next.unwrap() - lease.start_ms <= longest {
                running = Some(lease);
            } else {
                lease.end_ms = *time;
                done.push(lease);
                if is_on && heard {
                    running = Some(begin(first, vec![(*time, floor(&counter), first.memory_mib)]));
                }
            }
        } else if is_on && heard {
            let samples = said.iter().map(|row| (*time, floor(&counter), row.memory_mib)).collect();
            running = Some(begin(first, samples));
        }
        previous = Some(first);
    }
    assert!(running.is_none());
    done
}

fn begin(row: &Row, samples: Vec<Sample>) -> Lease {
    Lease { vcpus: row.vcpus, memory_mib: row.memory_mib, start_ms: row.at_ms, end_ms: row.at_ms, samples }
}

/// The rows that can be billed, and how many can't: a VM that is on and has no memory at all.
fn sound_rows(text: &str) -> (Vec<Row>, usize) {
    let (sound, unsound): (Vec<_>, Vec<_>) =
        rows(text).into_iter().partition(|row| row.vcpus == 0 || row.memory_mib > 0);
    (sound, unsound.len())
}

/// The leases of a text.
pub(crate) fn leases_of(text: &str) -> Vec<Lease> {
    leases(&sound_rows(text).0)
}

/// Bills one text at 25,000 / 7,500 microdollars and a floor of 50 millicores.
pub(crate) fn bill(text: &str) -> Bill {
    let (rows, unsound) = sound_rows(text);
    let mut bill = Bill {
        run_ms: 0,
        cpu_used_us: 0,
        cpu_us: 0,
        memory_mib_ms: 0,
        list_micros: ratio(0, 1),
        leases: 0,
        accepted: 0,
        duplicates: 0,
        refused: BTreeMap::new(),
    };
    if unsound > 0 {
        bill.refused.insert("invalid_row", unsound);
    }
    for lease in leases(&rows) {
        bill.leases += 1;
        let kept = judge(&lease, &mut bill);
        add_minutes(&lease, &kept, &mut bill);
    }
    bill.list_micros =
        ratio(bill.cpu_us * 25_000, 3_600_000_000) + ratio(bill.memory_mib_ms * 7_500, 1_024 * 3_600_000);
    bill
}

/// The samples that stand.
fn judge(lease: &Lease, bill: &mut Bill) -> Vec<Sample> {
    let mut kept: Vec<Sample> = Vec::new();
    for sample in &lease.samples {
        let (at, counter, _) = *sample;
        if kept.contains(sample) {
            bill.duplicates += 1;
            continue;
        }
        let code = match kept.last() {
            Some(last) if last.0 == at => Some("conflict"),
            Some(last) if counter < last.1 => Some("counter_regressed"),
            Some(last) if counter - last.1 > 2 * lease.vcpus * 1_000 * (at - last.0) + 1_000_000 => {
                Some("cpu_implausible")
            }
            _ => None,
        };
        if let Some(code) = code {
            *bill.refused.entry(code).or_default() += 1;
        } else {
            bill.accepted += 1;
            kept.push(*sample);
        }
    }
    kept
}

/// What the curve has counted up to an instant: straight between samples, flat after the last.
fn curve(lease: &Lease, kept: &[Sample], at_ms: i128) -> i128 {
    let mut sum = 0;
    for pair in kept.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let step = (to.1 - from.1).min(lease.vcpus * 1_000 * (to.0 - from.0));
        if at_ms >= to.0 {
            sum += step;
        } else if at_ms > from.0 {
            sum += floor(&ratio(step * (at_ms - from.0), to.0 - from.0));
        }
    }
    sum
}

fn memory_at(lease: &Lease, kept: &[Sample], at_ms: i128) -> i128 {
    let last = kept.iter().rev().find(|sample| sample.0 <= at_ms);
    last.map_or(lease.memory_mib, |sample| sample.2).min(lease.memory_mib)
}

fn add_minutes(lease: &Lease, kept: &[Sample], bill: &mut Bill) {
    let minute = 60_000;
    // The curve is asked at boundaries in order; start each question near its answer, or a month takes hours.
    let mut from = lease.start_ms;
    let mut near = 0;
    while from < lease.end_ms {
        let to = ((from / minute + 1) * minute).min(lease.end_ms);
        while kept.len() > near + 1 && kept[near + 1].0 <= from {
            near += 1;
        }
        let far = (near + 2 + kept[near..].iter().take_while(|sample| sample.0 < to).count()).min(kept.len());
        let around = &kept[near..far];
        let used = curve(lease, around, to) - curve(lease, around, from);
        let run = to - from;
        bill.run_ms += run;
        bill.cpu_used_us += used;
        bill.cpu_us += used.max(50 * run);
        let mut cuts: Vec<i128> = around.iter().map(|sample| sample.0).filter(|at| *at > from && *at < to).collect();
        cuts.extend([from, to]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            bill.memory_mib_ms += memory_at(lease, around, pair[0]) * (pair[1] - pair[0]);
        }
        from = to;
    }
}

/// The text of a file, inflated.
pub(crate) fn read(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    if path.extension().is_some_and(|end| end == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        std::io::BufReader::new(file).read_to_string(&mut text).unwrap();
    }
    text
}

#[test]
fn the_naive_bill_of_a_trace_that_fits_on_a_card() {
    // 2 vCPU, 4 GiB: an hour busy, an hour idle, rows each half hour; the last row counts for nothing.
    let header = "Timestamp [ms];\tCPU cores;\tMHZ;\tMHZ;\tCPU usage [%];\tMemory [KB]\n";
    let row = |second: i64, percent: &str| format!("{second};\t2;\t0;\t0;\t{percent};\t4194304.0\n");
    let text = [header.to_owned(), row(0, "100.0"), row(1_800, "1.0E2"), row(3_600, "0.0"), row(7_200, "77")].concat();
    let bill = bill(&text);
    assert_eq!(bill.list_micros, ratio(80_000 + 31_250, 1));
    assert_eq!((bill.run_ms, bill.leases, bill.accepted), (7_200_000, 1, 4));
}
