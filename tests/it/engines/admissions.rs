//! Admissions through two and three engines at once.

use serde_json::Value;

use super::{Fleet, Random};
use crate::harness::{HOUR_S, Time, at_once, lease, made, refused, sample, shape, time, with};

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// How many were admitted; all others must be refused with `spending_limit_reached`.
#[track_caller]
fn admitted(answers: Vec<(u16, Value)>) -> usize {
    let (yes, no): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 201);
    for answer in no {
        refused(answer, 402, "spending_limit_reached");
    }
    yes.len()
}

/// Asks `asks` times at once, by turns through every engine, for an hour that costs 80,000 at worst.
async fn ask_at_once(fleet: &Fleet, account: &str, key: &str, asks: usize) -> usize {
    let answers = at_once(asks, |index| {
        let (api, account, key) = (fleet.api(index), account.to_owned(), key.to_owned());
        async move { api.admit(&account, &key, &[shape(&format!("{key}-{index}"), HOUR_S)]).await }
    });
    admitted(answers.await)
}

/// How many rounds: 200, or as `RUNTAB_TEST_ROUNDS` says (1,000 is the long form).
fn rounds() -> usize {
    std::env::var("RUNTAB_TEST_ROUNDS").map_or(200, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Many short rounds: three fit, six ask, three pass. Four keys at a time, so that batches hold several.
async fn many_rounds(engines: usize) {
    let fleet = Fleet::start(engines, noon()).await;
    let fleet = &fleet;
    let round = async |number: usize| {
        let key = format!("k-{number}");
        // A balance shows a thousand keys.
        let account = format!("a-{}", number / 200);
        if number.is_multiple_of(200) {
            made(fleet.api(number).account(&account, true).await);
        }
        made(fleet.api(number).key(&account, &key, Some(240_000)).await);
        assert_eq!(ask_at_once(fleet, &account, &key, 6).await, 3, "round {number}");
        assert_eq!(fleet.api(number + 1).used_and_reserved(&account, &key).await, (0, 240_000), "round {number}");
    };
    for four in 0..rounds() / 4 {
        if four % 50 == 0 {
            round(4 * four).await;
            tokio::join!(round(4 * four + 1), round(4 * four + 2), round(4 * four + 3));
            continue;
        }
        tokio::join!(round(4 * four), round(4 * four + 1), round(4 * four + 2), round(4 * four + 3));
    }
}

#[tokio::test]
async fn a1_many_rounds_through_two_engines() {
    many_rounds(2).await;
}

#[tokio::test]
async fn a1_many_rounds_through_three_engines() {
    many_rounds(3).await;
}

#[tokio::test]
async fn a1_and_a2_through_three_engines() {
    let fleet = Fleet::start(3, noon()).await;
    for round in 0..4 {
        let key = format!("a1-{round}");
        made(fleet.api(round).key("acme", &key, Some(1_000_000)).await);
        assert_eq!(ask_at_once(&fleet, "acme", &key, 50).await, 12);
        // 20 at once of 75,000 against 500,000.
        let key = format!("a2-{round}");
        made(fleet.api(round).key("acme", &key, Some(500_000)).await);
        let answers = at_once(20, |index| {
            let (api, key) = (fleet.api(index), key.clone());
            async move { api.admit("acme", &key, &[shape(&format!("{key}-{index}"), 3_375)]).await }
        });
        assert_eq!(admitted(answers.await), 6);
        assert_eq!(fleet.api(round).used_and_reserved("acme", &key).await, (0, 450_000));
    }
}

/// An account's first limit is set while its keys' leases are admitted and sampled through other engines: whatever is
/// admitted afterwards counts against all that was before.
#[tokio::test]
async fn a_first_account_limit_misses_nothing() {
    let fleet = Fleet::start(2, noon()).await;
    for round in 0..10 {
        let account = format!("acme-{round}");
        let api = fleet.api(round);
        made(api.account(&account, true).await);
        made(api.key(&account, "k", None).await);
        let leases: Vec<Value> = (0..20).map(|index| shape(&format!("l-{index}"), HOUR_S)).collect();
        made(api.admit(&account, "k", &leases).await);
        let patch = serde_json::json!({"daily_limit_micros": 20 * 80_000});
        let (admitted_first, limited, ended) = tokio::join!(
            async { fleet.api(0).admit(&account, "k", &[shape("more", HOUR_S)]).await },
            async { fleet.api(1).patch(&format!("/v1/accounts/{account}"), &patch).await },
            at_once(20, |index| {
                let (api, account) = (fleet.api(index), account.clone());
                async move { api.end(&account, &format!("l-{index}"), None, "cancel").await }
            }),
        );
        assert_eq!(limited.0, 200);
        assert!(ended.iter().all(|(status, _)| *status == 200));
        let held = i64::from(admitted_first.0 == 201) * 80_000;
        let balance = api.balance(&account).await;
        let of_account = crate::harness::int(&balance["account_day"], "reserved_micros");
        assert_eq!(of_account, held, "round {round}: {balance}");
        // All the rest of it fits, and not one more.
        let fit = usize::try_from(20 - held / 80_000).expect("a count");
        let answers = at_once(25, |index| {
            let (api, account) = (fleet.api(index), account.clone());
            async move { api.admit(&account, "k", &[shape(&format!("n-{index}"), HOUR_S)]).await }
        });
        assert_eq!(admitted(answers.await), fit, "round {round}");
    }
}

/// Three callers of one key through three engines: each admits, samples busily, extends and ends as it likes. At no
/// instant is more than the limit used and held.
#[tokio::test]
async fn a1_random_interleavings_never_overshoot() {
    let fleet = Fleet::start(3, noon()).await;
    let fleet = &fleet;
    let began = noon().plus_s(-1_800);
    let caller = async |key: &str, number: u64| {
        let mut random = Random(number);
        let mut running: Vec<(String, i64)> = Vec::new();
        for step in 0..40 {
            let api = fleet.api(usize::try_from(random.below(3)).expect("small"));
            let pick = usize::try_from(random.below(100)).expect("small");
            if running.is_empty() || pick < 35 {
                let id = format!("{key}-{number}-{step}");
                let ask = with(lease(&id, &id, 1, 1_024, HOUR_S), "starts_at", began.to_string());
                if api.admit("acme", key, &[ask]).await.0 == 201 {
                    running.push((id, 0));
                }
                continue;
            }
            let place = pick % running.len();
            let (id, sampled) = running[place].clone();
            if pick < 75 {
                let seconds = (sampled + 300).min(1_800);
                let at = began.plus_s(seconds);
                assert_eq!(api.samples(&[sample("acme", &id, &id, at, seconds * 1_000_000)]).await.0, 200);
                running[place].1 = seconds;
            } else if pick < 85 {
                let (status, body) = api.extend("acme", &id, &format!("x-{step}"), 600).await;
                assert!([200, 402].contains(&status), "{status} {body}");
            } else {
                let (status, body) = api.end("acme", &id, None, "stop").await;
                assert_eq!(status, 200, "{body}");
                running.swap_remove(place);
            }
            let (used, reserved) = api.used_and_reserved("acme", key).await;
            assert!(used + reserved <= 150_000, "{key}: {used} + {reserved}");
        }
    };
    for round in 0..rounds() / 25 {
        let key = format!("r-{round}");
        made(fleet.api(round).key("acme", &key, Some(150_000)).await);
        let seed = u64::try_from(round).expect("small") * 16;
        tokio::join!(caller(&key, seed), caller(&key, seed + 1), caller(&key, seed + 2));
    }
}

/// All engines are killed under load; what they answered holds, and what is left of each limit is exact.
#[tokio::test]
async fn a6_counters_survive_the_crash_of_two_engines() {
    let start = time("2026-11-10T00:00:00Z");
    let mut fleet = Fleet::start(2, start).await;
    let keys: Vec<String> = (0..40).map(|index| format!("k-{index}")).collect();
    for (index, key) in keys.iter().enumerate() {
        made(fleet.api(index).key("acme", key, Some(1_000_000)).await);
        made(fleet.api(index + 1).admit("acme", key, &[shape(key, 42_750)]).await);
    }
    let end = start.plus_s(42_750);
    fleet.set_clock(end).await;
    let samples: Vec<Value> =
        keys.iter().map(|key| sample("acme", &format!("s-{key}"), key, end, 2 * 42_750_000_000)).collect();
    fleet.api(1).accepted(&samples).await;
    fleet.others.clear();
    fleet.first.crash_and_restart();
    let (api, process) = fleet.first.beside();
    fleet.others.push((api, Box::new(process)));
    for key in &keys {
        let answers = at_once(2, |index| {
            let (api, key) = (fleet.api(index), key.clone());
            async move { api.admit("acme", &key, &[shape(&format!("no-{key}-{index}"), HOUR_S)]).await }
        });
        assert_eq!(admitted(answers.await), 0);
        let answers = at_once(2, |index| {
            let (api, key) = (fleet.api(index), key.clone());
            async move { api.admit("acme", &key, &[shape(&format!("fit-{key}-{index}"), 2_250)]).await }
        });
        assert_eq!(admitted(answers.await), 1, "an exact fit, once");
    }
}

/// Five busy leases under a limit for six: of two more asked together one passes, whichever engine has seen the samples.
#[tokio::test]
async fn a10_no_stale_aggregate_decides_through_three_engines() {
    let fleet = Fleet::start(3, noon()).await;
    let ask = |key: &str, index: usize| lease(&format!("{key}-{index}"), &format!("{key}-{index}"), 1, 1_024, HOUR_S);
    for round in 0..8 {
        let key = format!("k-{round}");
        made(fleet.api(round).key("acme", &key, Some(200_000)).await);
        let five: Vec<Value> =
            (0..5).map(|index| with(ask(&key, index), "starts_at", noon().plus_s(-1_200).to_string())).collect();
        made(fleet.api(round).admit("acme", &key, &five).await);
        let busy: Vec<Value> = (0..5)
            .map(|index| sample("acme", &format!("{key}-{index}"), &format!("{key}-{index}"), noon(), 1_200_000_000))
            .collect();
        let (sampled, answers) = tokio::join!(
            async { fleet.api(round + 1).samples(&busy).await },
            at_once(2, |index| {
                let (api, ask, key) = (fleet.api(round + index), ask(&key, 5 + index), key.clone());
                async move { api.admit("acme", &key, &[ask]).await }
            })
        );
        assert_eq!(sampled.0, 200);
        assert_eq!(admitted(answers), 1, "round {round}");
        let (used, reserved) = fleet.api(round).used_and_reserved("acme", &key).await;
        assert_eq!((used, used + reserved), (54_166, 195_000), "round {round}");
    }
}
