//! Pages of evidence: what goes in comes out, any bytes are safe to read, and one sequence has one encoding.

use proptest::prelude::*;
use runtab::domain::sample::COUNTER_MAX;
use runtab::domain::sample_page::{OpenPage, PAGE_SAMPLES_MAX, PageError, PageSample, decode, encode};
use runtab::domain::time::Month;
use runtab::domain::units::{MEBIBYTES_MAX, MebiBytes};

use crate::world::ts;

fn size() -> impl Strategy<Value = Option<MebiBytes>> {
    let mib = prop_oneof![3 => Just(4_096), 1 => 0..=MEBIBYTES_MAX];
    prop::option::of(mib).prop_map(|mib| mib.and_then(MebiBytes::new))
}

fn samples() -> impl Strategy<Value = Vec<PageSample>> {
    let counter = || prop_oneof![0..1_000_000_i64, 0..=COUNTER_MAX];
    let cpu = prop::option::weighted(0.9, (prop_oneof![4 => Just(0), 1 => counter()], counter()));
    let gap = prop_oneof![8 => 1..20_000_i64, 1 => 1..10_000_000_i64];
    prop::collection::vec((gap, cpu, size(), size()), 0..300).prop_map(|moves| {
        let mut at = 1_793_534_400_000;
        let next = |(gap, cpu, memory, storage)| {
            at += gap;
            PageSample { at: ts(at), cpu, memory, storage }
        };
        moves.into_iter().map(next).collect()
    })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(samples in samples()) {
        let mut open = OpenPage::default();
        let mut pages = Vec::new();
        for sample in &samples {
            pages.extend(open.push(*sample, Month::FIRST).unwrap());
        }
        prop_assert!(samples.first().is_none_or(|first| open.clone().push(*first, Month::FIRST) == Err(PageError::OutOfOrder)));
        pages.extend(open.close().unwrap());
        prop_assert!(open.close().unwrap().is_none());
        let mut back = Vec::new();
        for (number, page) in (0_i64..).zip(&pages) {
            let read = decode(&page.bytes).unwrap();
            prop_assert_eq!(page.number, number);
            prop_assert!((1..=PAGE_SAMPLES_MAX).contains(&read.len()));
            prop_assert_eq!((page.first_at, page.last_at), (read[0].at, read[read.len() - 1].at));
            prop_assert_eq!(page.first_at.hour(), page.last_at.hour());
            let storage: Vec<_> = read.iter().filter(|seen| seen.storage.is_some()).map(|seen| seen.at).collect();
            prop_assert_eq!(page.storage_span, storage.first().map(|first| (*first, storage[storage.len() - 1])));
            prop_assert_eq!(&encode(&read), &page.bytes);
            back.extend(read);
        }
        prop_assert_eq!(back, samples);
    }

    #[test]
    fn any_bytes_are_safe_and_what_reads_is_canonical(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let versioned = [&[1], &bytes[..]].concat();
        for bytes in [bytes, versioned] {
            if let Ok(samples) = decode(&bytes) {
                prop_assert_eq!(encode(&samples), bytes);
            }
        }
    }

    #[test]
    fn a_damaged_page_is_safe_and_what_reads_is_canonical(
        samples in samples(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = encode(&samples[..samples.len().min(8)]);
        if !bytes.is_empty() {
            let place = place.index(bytes.len());
            bytes[place] = byte;
            if let Ok(samples) = decode(&bytes) {
                prop_assert_eq!(encode(&samples), bytes);
            }
        }
    }
}

#[test]
fn a_typical_sample_takes_at_most_nine_bytes() {
    let mut open = OpenPage::default();
    let memory = MebiBytes::new(4_096);
    for index in 0..64 {
        let storage = MebiBytes::new(812 + index / 10);
        let cpu = Some((1_793_534_000_000, index * 5_123_456));
        let sample = PageSample { at: ts(1_793_534_400_000 + index * 10_003), cpu, memory, storage };
        assert!(open.push(sample, Month::FIRST).unwrap().is_none());
    }
    assert!(open.bytes.len() <= 64 * 9, "{} bytes", open.bytes.len());
}

#[test]
fn a_late_sample_makes_a_page_of_its_own_and_takes_the_next_number() {
    let sample = |second: i64| PageSample {
        at: ts(1_793_534_400_000 + second * 1_000),
        cpu: Some((0, 0)),
        memory: None,
        storage: MebiBytes::new(0),
    };
    let mut open = OpenPage::default();
    open.push(sample(10), Month::FIRST).unwrap();
    let late = open.late(sample(5), Month::FIRST);
    assert_eq!((late.number, decode(&late.bytes).unwrap()), (0, vec![sample(5)]));
    assert_eq!(late.storage_span, Some((sample(5).at, sample(5).at)));
    open.push(sample(20), Month::FIRST).unwrap();
    let closed = open.close().unwrap().unwrap();
    assert_eq!((closed.number, open.next_number), (1, 2));
    assert_eq!(decode(&closed.bytes).unwrap(), [sample(10), sample(20)]);
}
