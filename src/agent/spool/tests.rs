//! What a spool keeps, gives out again, and lets go; over restarts and on disks that fail.

use std::path::Path;

use super::{AppendError, Batch, Limits, Spool, lines, parts};

const LIMITS: Limits =
    Limits { bytes_max: 1 << 20, segment_bytes_max: 1 << 18, unanswered_ms_max: 1_000_000, answered_ms: 1_000 };

fn open(folder: &Path, limits: Limits) -> Spool {
    Spool::open(folder, limits).unwrap()
}

/// Texts of rows that don't compress well, so that sizes are about their number.
fn rows(round: i64, count: usize) -> Vec<String> {
    let text =
        |row: usize| crate::secret::Secret::from_random(crate::secret::SecretKind::Key, &seed(round, row)).into_text();
    (0..count).map(|row| format!("{{\"row\":\"{round} {row} {}\"}}", text(row))).collect()
}

fn seed(round: i64, row: usize) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(format!("{round} {row}")).into()
}

fn append(spool: &mut Spool, round: i64, count: usize) -> Result<(), AppendError> {
    spool.append(&parts(&rows(round, count), round).unwrap())
}

/// As a server reads them that stops behind the first gzip member.
fn rows_of(batch: &Batch) -> Vec<String> {
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&*batch.body);
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    let rows: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines(&batch.body, 1 << 24).unwrap(), rows);
    rows
}

fn drain(spool: &mut Spool, rows_max: u64) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(batch) = spool.next_batch(rows_max).unwrap() {
        all.extend(rows_of(&batch));
        spool.answered(&batch).unwrap();
    }
    all
}

#[test]
fn rows_come_out_in_order_once_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    let mut drained = Vec::new();
    for round in 0..30 {
        let mut spool = open(folder.path(), Limits { segment_bytes_max: 40_000, ..LIMITS });
        append(&mut spool, round, 250).unwrap();
        expected.extend(rows(round, 250));
        if round % 3 == 0 {
            let batch = spool.next_batch(300).unwrap().unwrap();
            assert!((1..=300).contains(&batch.rows));
            drained.extend(rows_of(&batch));
            spool.answered(&batch).unwrap();
        }
    }
    let mut spool = open(folder.path(), LIMITS);
    assert_eq!(spool.unanswered_rows(), u64::try_from(expected.len() - drained.len()).unwrap());
    drained.extend(drain(&mut spool, 1_000));
    assert_eq!(drained, expected);
    assert_eq!((spool.unanswered_rows(), spool.filled_permille()), (0, 0));
}

#[test]
fn what_is_not_answered_is_sent_again_byte_for_byte_after_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), LIMITS);
    append(&mut spool, 1, 10).unwrap();
    append(&mut spool, 2, 10).unwrap();
    let first = spool.next_batch(1_000).unwrap().unwrap();
    append(&mut spool, 3, 10).unwrap();
    assert_eq!(spool.next_batch(1_000).unwrap().unwrap(), first, "what came since is not in it");
    assert_eq!(spool.next_batch(1).unwrap().unwrap(), first, "whatever may be sent now");
    drop(spool);
    let mut spool = open(folder.path(), LIMITS);
    assert_eq!(spool.next_batch(1_000).unwrap().unwrap(), first);
    spool.choose_again().unwrap();
    assert_eq!(spool.next_batch(1).unwrap().unwrap().rows, 10, "one record at least");
}

#[test]
fn a_torn_end_is_cut_reported_and_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), LIMITS);
    append(&mut spool, 1, 10).unwrap();
    append(&mut spool, 2, 10).unwrap();
    drop(spool);
    let path = folder.path().join("00000000000000000000.seg");
    let whole = std::fs::read(&path).unwrap();
    for cut in [1, 20, 200] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let mut spool = open(folder.path(), LIMITS);
        assert!(spool.counts().torn_bytes > 0);
        assert_eq!(spool.unanswered_rows(), 10);
        append(&mut spool, 3, 1).unwrap();
        assert_eq!(drain(&mut spool, 1_000), [rows(1, 10), rows(3, 1)].concat());
        drop(spool);
        std::fs::remove_dir_all(folder.path()).unwrap();
        std::fs::create_dir(folder.path()).unwrap();
    }
}

#[test]
fn damage_in_the_middle_loses_what_is_behind_it_in_its_segment_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { segment_bytes_max: 4_096, ..LIMITS };
    let mut spool = open(folder.path(), limits);
    for round in 0..3 {
        append(&mut spool, round, 100).unwrap();
    }
    let path = folder.path().join("00000000000000000001.seg");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    // While it is open, and when it is opened.
    assert_eq!(drain(&mut spool, 10_000), [rows(0, 100), rows(2, 100)].concat());
    assert!(spool.counts().damaged_bytes > 1_000);
    assert_eq!(spool.unanswered_rows(), 0);
    drop(spool);
    std::fs::write(&path, &bytes).unwrap();
    assert!(open(folder.path(), limits).counts().damaged_bytes > 1_000);
    assert_eq!(std::fs::read(path.with_extension("damaged")).unwrap(), bytes, "kept for people");
}

#[test]
fn a_full_spool_lets_go_what_is_answered_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 65_536, segment_bytes_max: 16_384, ..LIMITS };
    let mut spool = open(folder.path(), limits);
    let mut kept = 0;
    while append(&mut spool, kept, 100).is_ok() {
        kept += 1;
    }
    assert!(kept > 4 && spool.filled_permille() > 700, "{kept} {}", spool.filled_permille());
    assert!(matches!(append(&mut spool, kept, 100), Err(AppendError::Full)));
    for round in 0..kept / 2 {
        let batch = spool.next_batch(1).unwrap().unwrap();
        assert_eq!(rows_of(&batch), rows(round, 100));
        spool.answered(&batch).unwrap();
    }
    append(&mut spool, kept, 100).unwrap();
    assert!(spool.bytes() <= 65_536);
    let rest: Vec<String> = (kept / 2..=kept).flat_map(|round| rows(round, 100)).collect();
    assert_eq!(drain(&mut spool, 1_000), rest, "nothing unanswered went");
}

#[test]
fn age_lets_go_of_answered_rows_and_gives_up_unanswered_ones_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), Limits { segment_bytes_max: 4_096, ..LIMITS });
    for round in [1_000, 2_000, 3_000] {
        append(&mut spool, round, 100).unwrap();
    }
    let batch = spool.next_batch(1).unwrap().unwrap();
    spool.answered(&batch).unwrap();
    let bytes = spool.bytes();
    spool.tidy(2_000).unwrap();
    assert_eq!(spool.bytes(), bytes);
    spool.tidy(2_001).unwrap();
    assert!(spool.bytes() < bytes);
    spool.tidy(1_002_001).unwrap();
    assert_eq!((spool.counts().given_up_rows, spool.unanswered_rows()), (100, 100));
    assert_eq!(drain(&mut spool, 1_000), rows(3_000, 100));
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), LIMITS);
    append(&mut spool, 1, 10).unwrap();
    // A directory where the next segment would be.
    drop(spool);
    let mut spool = open(folder.path(), LIMITS);
    let place = folder.path().join("00000000000000000001.seg");
    std::fs::create_dir(&place).unwrap();
    assert!(matches!(append(&mut spool, 2, 10), Err(AppendError::Io(_))));
    std::fs::remove_dir(&place).unwrap();
    append(&mut spool, 3, 10).unwrap();
    assert_eq!(drain(&mut spool, 1_000), [rows(1, 10), rows(3, 10)].concat());
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path(), LIMITS);
    let error = Spool::open(folder.path(), LIMITS).unwrap_err();
    assert!(error.to_string().contains("another agent has it"), "{error}");
    drop(spool);
    open(folder.path(), LIMITS);
}

#[test]
fn rows_after_a_label_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(folder.path(), Limits { segment_bytes_max: 4_096, ..LIMITS });
    for round in 0..4 {
        append(&mut spool, round, 60).unwrap();
    }
    let mut found = Vec::new();
    spool.rows_after(1, &mut |row| found.push(row.to_owned())).unwrap();
    assert_eq!(found, [rows(2, 60), rows(3, 60)].concat());
}
