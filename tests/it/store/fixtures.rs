//! Things to keep: with everything set to its extreme, and with as little as there can be.

use runtab::domain::customer::{Account, AccountStatus, Key};
use runtab::domain::free_hours::Grant;
use runtab::domain::id::{AccountId, GrantId, HostId, KeyId, LeaseId, SandboxId};
use runtab::domain::lease::{Asked, End, EndReason, HourTotals, Lease, LeaseKind, OpenHour, Shape};
use runtab::domain::meter::{Meter, OpenMinute};
use runtab::domain::money::{MICROS_MAX, Micros};
use runtab::domain::sample::{COUNTER_MAX, Reading};
use runtab::domain::sample_page::OpenPage;
use runtab::domain::sandbox::{LatestLease, Sandbox};
use runtab::domain::storage_meter::{Reporter, StorageHour, StorageMeter, StoragePoint};
use runtab::domain::tax::{TAX_RATE_BPS_MAX, TaxRate};
use runtab::domain::time::{Day, Hour, Month, Span, Timestamp};
use runtab::domain::units::{MEBIBYTES_MAX, MebiBytes, VCPUS_MAX, Vcpus};
use runtab::domain::usage::Usage;

/// Text that breaks what is not quoted.
pub(crate) const ODD_TEXT: &str = "O'Brien \"&\" \\ {rows} $1 ü 😀\n\t[null]";

pub(crate) fn account_id(text: &str) -> AccountId {
    AccountId::parse(text).unwrap()
}
pub(crate) fn key_id(text: &str) -> KeyId {
    KeyId::parse(text).unwrap()
}
pub(crate) fn sandbox_id(text: &str) -> SandboxId {
    SandboxId::parse(text).unwrap()
}
pub(crate) fn lease_id(text: &str) -> LeaseId {
    LeaseId::parse(text).unwrap()
}
pub(crate) fn grant_id(text: &str) -> GrantId {
    GrantId::parse(text).unwrap()
}
pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}
pub(crate) fn hour(index: i64) -> Hour {
    Hour::from_index(index).unwrap()
}
pub(crate) fn day(index: i64) -> Day {
    Day::from_index(index).unwrap()
}

pub(crate) fn account(id: &str) -> Account {
    Account {
        id: account_id(id),
        name: ODD_TEXT.to_owned(),
        status: AccountStatus::Active,
        card_on_file: false,
        daily_limit: None,
        counted_from: None,
        tax: None,
        created_at: Timestamp::EPOCH,
    }
}

pub(crate) fn full_account(id: &str) -> Account {
    Account {
        name: String::new(),
        status: AccountStatus::Suspended,
        card_on_file: true,
        daily_limit: Micros::new(MICROS_MAX),
        counted_from: Some(Timestamp::MAX.day()),
        tax: TaxRate::from_bps(TAX_RATE_BPS_MAX),
        created_at: Timestamp::MAX,
        ..account(id)
    }
}

pub(crate) fn key(account: &str, id: &str) -> Key {
    Key {
        account: account_id(account),
        id: key_id(id),
        name: ODD_TEXT.to_owned(),
        read_only: false,
        daily_limit: None,
        revoked_at: None,
        created_at: at(1),
    }
}

pub(crate) fn grant(account: &str, id: &str) -> Grant {
    Grant {
        account: account_id(account),
        id: grant_id(id),
        granted_ms: i64::MAX,
        used_ms: 0,
        starts_on: day(0),
        expires_on: Some(Timestamp::MAX.day()),
        note: ODD_TEXT.to_owned(),
        created_at: at(2),
    }
}

/// Usage whose components all differ.
pub(crate) fn usage(unit: i128) -> Usage {
    Usage { run_ms: unit, cpu_used_us: 2 * unit, cpu_us: 3 * unit, memory_mib_ms: 4 * unit, storage_mib_ms: 5 * unit }
}

pub(crate) fn totals(unit: i128) -> HourTotals {
    let free = Usage { cpu_us: 7 * unit, memory_mib_ms: 8 * unit, ..Usage::ZERO };
    HourTotals { usage: usage(unit), free_ms: 6 * unit, free }
}

/// A running lease with nothing metered yet.
pub(crate) fn lease(account: &str, id: &str, sandbox: &str) -> Lease {
    Lease {
        account: account_id(account),
        id: lease_id(id),
        key: key_id("ci"),
        sandbox: sandbox_id(sandbox),
        life: 1,
        kind: LeaseKind::Create,
        shape: Shape { vcpus: Vcpus::new(1).unwrap(), memory: MebiBytes::new(1).unwrap() },
        window: Span { start: at(1_000), end: at(2_000) },
        asked: Asked { starts_at: None, timeout_ms: 1_000, max_cost: None, host: None, replaces: None },
        end: None,
        host: None,
        created_at: at(0),
        open: true,
        settles_at: at(902_000),
        settled_at: None,
        meter: Meter::default(),
        open_hour: None,
        page: OpenPage::default(),
        voided_until: None,
    }
}

/// A lease that has everything, at its extreme.
pub(crate) fn full_lease(account: &str, id: &str, sandbox: &str) -> Lease {
    let most = i128::from(i64::MAX);
    let all = Usage {
        run_ms: most,
        cpu_used_us: i128::from(i64::MIN),
        cpu_us: most,
        memory_mib_ms: most,
        storage_mib_ms: most,
    };
    let free = Usage { cpu_us: most, memory_mib_ms: i128::from(i64::MIN), ..Usage::ZERO };
    Lease {
        life: i64::MAX,
        kind: LeaseKind::Fork,
        shape: Shape { vcpus: Vcpus::new(VCPUS_MAX).unwrap(), memory: MebiBytes::new(MEBIBYTES_MAX).unwrap() },
        window: Span { start: Timestamp::EPOCH, end: Timestamp::MAX },
        asked: Asked {
            starts_at: Some(Timestamp::MAX),
            timeout_ms: i64::MAX,
            max_cost: Micros::new(MICROS_MAX),
            host: Some(HostId::parse(&"h".repeat(64)).unwrap()),
            replaces: Some(lease_id(&"l".repeat(64))),
        },
        end: Some(End {
            at: at(5),
            reason: EndReason::HostLost,
            proven_until: Some(at(4)),
            told_in: Some(Month::FIRST),
        }),
        host: Some(HostId::parse("h-1").unwrap()),
        created_at: Timestamp::MAX,
        open: false,
        settles_at: Timestamp::MAX,
        settled_at: Some(Timestamp::EPOCH),
        meter: Meter {
            last: Some(Reading {
                at: at(3),
                epoch: COUNTER_MAX,
                cpu_usage_us: COUNTER_MAX,
                memory: MebiBytes::new(MEBIBYTES_MAX),
                storage: Some(MebiBytes::ZERO),
            }),
            open: Some(OpenMinute { minute: Timestamp::MAX.minute(), used_us: i64::MAX, run_ms: 60_000 }),
        },
        open_hour: Some(OpenHour {
            hour: Timestamp::MAX.hour(),
            totals: HourTotals { usage: all, free_ms: most, free },
        }),
        page: OpenPage { bytes: (0..=255).collect(), next_number: i64::MAX, accepted_in: Some(Month::FIRST) },
        voided_until: Some(Timestamp::MAX),
        ..lease(account, id, sandbox)
    }
}

/// A sandbox that has no lease and no disk yet.
pub(crate) fn sandbox(account: &str, id: &str, life: i64, created_at: i64) -> Sandbox {
    Sandbox {
        account: account_id(account),
        id: sandbox_id(id),
        life,
        first_key: key_id("ci"),
        created_at: at(created_at),
        deleted_at: None,
        deleted_in: None,
        latest: None,
        storage: StorageMeter::default(),
        page: OpenPage::default(),
        voided_until: None,
    }
}

/// A sandbox that has everything.
pub(crate) fn full_sandbox(account: &str, id: &str, by: Reporter) -> Sandbox {
    let point = StoragePoint { at: Timestamp::MAX, storage: MebiBytes::new(MEBIBYTES_MAX).unwrap(), by };
    Sandbox {
        deleted_at: Some(Timestamp::MAX),
        deleted_in: Some(Timestamp::MAX.month()),
        latest: Some(LatestLease { id: lease_id("l"), key: key_id("k"), starts_at: Timestamp::MAX }),
        storage: StorageMeter {
            last: Some(point),
            open_hour: Some(StorageHour { hour: hour(9), key: key_id("k2"), mib_ms: i128::from(i64::MAX) }),
        },
        page: OpenPage { bytes: vec![0, 255], next_number: 3, accepted_in: Some(Month::FIRST) },
        voided_until: Some(at(7)),
        ..sandbox(account, id, i64::MAX, 0)
    }
}
