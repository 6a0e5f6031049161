//! The runs: undisturbed, killed, and asked to stop.

use runtab::wire::proof::check;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fleet::{Fleet, kills};
use super::history::{ACCOUNTS, Ask, account, history, start};
use crate::harness::{
    Answer, Api, Backend, HOUR_S, Process, create_token, done, dump_tables, int, made, on_each_backend, shape, time,
};

on_each_backend!(r5_sigkill_at_random_moments, r5_sigterm_finishes_what_it_accepted);

/// Tables whose rows must be the same, whatever commits they came in.
const TABLES: [&str; 8] =
    ["usage_hours", "draws", "key_days", "account_days", "grants", "lease_extensions", "invoices", "invoice_lines"];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// What a run leaves behind.
struct Ledger {
    /// What each account was answered, in order: refusals by code, samples by what was not taken.
    answers: Vec<Vec<Value>>,
    /// What readers see of each account.
    seen: Vec<Vec<Value>>,
    /// Rows of tables.
    tables: String,
}

/// An answer without what a retry may change: whether it was the first, and what was taken before.
fn told((status, body): &Answer) -> Value {
    match (status, body["accepted"].as_i64()) {
        (200, Some(accepted)) => {
            json!({"known": accepted + int(body, "duplicates"), "rejected": body["rejected"]})
        }
        (200 | 201, None) => json!("done"),
        _ => json!({"status": status, "code": body["code"], "needed": body["needed_micros"],
                    "available": body["available_micros"]}),
    }
}

async fn customers(api: &Api) {
    for number in 0..ACCOUNTS {
        let account = account(number);
        made(api.account(&account, true).await);
        made(api.key(&account, "ci", None).await);
        made(api.key(&account, "capped", Some(1_000_000)).await);
    }
}

/// Everything that readers see of an account.
async fn seen(fleet: &Fleet, account: &str) -> Vec<Value> {
    let costs = |more: &str| format!("/costs?from=2026-11-10T00:00:00Z&to=2026-11-13T00:00:00Z&{more}");
    let paths = [
        "/keys".to_owned(),
        "/grants".to_owned(),
        "/balance".to_owned(),
        "/leases?limit=1000".to_owned(),
        "/sandboxes?limit=1000".to_owned(),
        costs("granularity=hour&group_by=lease"),
        costs("granularity=day&group_by=key"),
        costs("granularity=total&group_by=resource"),
        "/invoices".to_owned(),
    ];
    let mut all = Vec::new();
    for path in paths {
        all.push(fleet.get(&format!("/v1/accounts/{account}{path}")).await);
    }
    all
}

async fn everything_seen(fleet: &Fleet) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for number in 0..ACCOUNTS {
        all.push(seen(fleet, &account(number)).await);
    }
    all
}

/// Plays the history on new engines; `killed` of them at requests that the seed chooses.
async fn run(backend: Backend, seed: u64, engines: usize, killed: usize) -> Ledger {
    let database = backend.database().await;
    let phases = history(seed);
    let requests = phases.iter().flat_map(|phase| &phase.asks).map(Vec::len).sum();
    let (samples, leases) = (count(&phases, "/samples"), count(&phases, "/leases"));
    assert!(samples >= 10_000 && leases >= 200, "{samples} samples, {leases} leases");
    // The first engine makes the tables.
    drop(Process::start(&database.url, start(), &[]));
    let token = create_token(&database.url, &["--role", "admin"]);
    let (fleet, keeper) = Fleet::start(&database.url, &token, start(), engines, kills(seed, killed, requests));
    customers(&fleet.engine(0).await).await;

    let mut answers = vec![Vec::new(); ACCOUNTS];
    let mut sure: Vec<(usize, Ask)> = Vec::new();
    for phase in phases {
        fleet.set_clock(phase.now).await;
        let mut clients = JoinSet::new();
        for (number, asks) in phase.asks.into_iter().enumerate() {
            let fleet = fleet.clone();
            clients.spawn(async move {
                let mut answers = Vec::new();
                for ask in asks {
                    answers.push((fleet.ask(&ask, number).await, ask));
                }
                (number, answers)
            });
        }
        while let Some(client) = clients.join_next().await {
            let (number, told_now) = client.expect("a client");
            answers[number].extend(told_now.iter().map(|(answer, _)| told(answer)));
            sure.extend(told_now.into_iter().filter(|((status, _), _)| *status < 300).map(|(_, ask)| (number, ask)));
        }
    }
    // The month is closed by two at once, and one of them is asked again.
    fleet.set_clock(time("2026-12-02T00:00:00Z")).await;
    let close = || Ask { path: "/v1/months/2026-11/close".to_owned(), body: json!({}) };
    let closed = {
        let (first, second) = (close(), close());
        tokio::join!(fleet.ask(&first, 0), fleet.ask(&second, 1))
    };
    assert_eq!(done(closed.0), json!({"month": "2026-11", "invoices": ACCOUNTS}));
    assert_eq!(done(closed.1), json!({"month": "2026-11", "invoices": ACCOUNTS}));
    assert_eq!(fleet.stop().await, killed);
    every_invoice_is_proved(&fleet).await;
    let seen = everything_seen(&fleet).await;
    nothing_is_lost(&fleet, sure).await;
    assert!(everything_seen(&fleet).await == seen, "repeating changes nothing");
    let tables = dump_tables(&database.url, &TABLES).await;
    drop(fleet);
    keeper.await.expect("the keeper");
    Ledger { answers, seen, tables }
}

/// Final invoices are what their evidence makes, whatever crashed.
async fn every_invoice_is_proved(fleet: &Fleet) {
    let api = fleet.engine(0).await;
    for number in 0..ACCOUNTS {
        let path = format!("/v1/accounts/{}/invoices/2026-11", account(number));
        let invoice = done(api.get(&path).await);
        let evidence = api.raw("GET", &format!("{path}/evidence"), &[], Vec::new()).await;
        assert_eq!((evidence.status, &invoice["status"]), (200, &json!("final")));
        let verdict = check(&mut &evidence.body[..], invoice.to_string().as_bytes()).expect("bytes");
        assert!(verdict.found.is_empty() && verdict.checked.samples > 1_000, "{verdict:?}");
    }
}

fn count(phases: &[super::history::Phase], path: &str) -> usize {
    let asks = phases.iter().flat_map(|phase| phase.asks.iter().flatten()).filter(|ask| ask.path.ends_with(path));
    asks.map(|ask| ask.body["leases"].as_array().or(ask.body.as_array()).map_or(0, Vec::len)).sum()
}

/// Everything that was acknowledged is known when it comes again.
async fn nothing_is_lost(fleet: &Fleet, sure: Vec<(usize, Ask)>) {
    for (number, ask) in sure {
        let body = done(fleet.ask(&ask, number).await);
        if ask.path == "/v1/samples" {
            assert_eq!(int(&body, "accepted"), 0, "{body}");
        }
    }
}

async fn r5_sigkill_at_random_moments(backend: Backend) {
    let seed = setting("RUNTAB_TEST_SEED", 1);
    let killed = usize::try_from(setting("RUNTAB_TEST_KILLS", 20)).expect("a number");
    let engines = if backend == Backend::Postgres { 2 } else { 1 };
    let quiet = run(backend, seed, 1, 0).await;
    let disturbed = run(backend, seed, engines, killed).await;
    let refused = quiet.answers.iter().flatten().filter(|answer| answer["code"].is_string()).count();
    assert!(refused > 0, "a limit binds");
    let free = |seen: &Vec<Value>| int(&seen[2]["free"], "remaining_ms");
    assert!(quiet.seen.iter().all(|seen| free(seen) == 0), "free hours run out");
    for number in 0..ACCOUNTS {
        assert_eq!(disturbed.answers[number], quiet.answers[number], "answers of account {number}");
        assert_eq!(disturbed.seen[number], quiet.seen[number], "account {number}");
    }
    assert!(disturbed.tables == quiet.tables, "{}\n---\n{}", disturbed.tables, quiet.tables);
}

/// Every answer that it owes is given before it ends, and what it did not answer it did not do.
async fn r5_sigterm_finishes_what_it_accepted(backend: Backend) {
    let database = backend.database().await;
    let process = Process::start(&database.url, start(), &[]);
    let token = create_token(&database.url, &["--role", "admin"]);
    let api = Api::new(process.base(), Some(&token));
    made(api.account("acme", true).await);
    made(api.key("acme", "ci", None).await);
    let mut clients = JoinSet::new();
    for client in 0..16 {
        let api = api.clone();
        clients.spawn(async move {
            let mut known = Vec::new();
            for number in 0.. {
                let body = json!({"key": "ci", "leases": [shape(&format!("l-{client}-{number}"), HOUR_S)]});
                match api.attempt("POST", "/v1/accounts/acme/leases", &body).await {
                    Some((201, body)) => known.push(body["leases"][0]["id"].as_str().expect("an id").to_owned()),
                    Some((503, _)) | None => break,
                    Some(other) => panic!("{other:?}"),
                }
            }
            known
        });
    }
    // Long enough for every client to be at work: what is seen grows.
    let path = "/v1/accounts/acme/leases?limit=1000";
    while done(api.get(path).await)["items"].as_array().map_or(0, Vec::len) < 64 {}
    process.terminate();
    let mut acknowledged: Vec<String> = clients.join_all().await.into_iter().flatten().collect();
    let ended_well = tokio::task::spawn_blocking(move || process.wait()).await.expect("a wait");
    assert!(ended_well, "SIGTERM is a good end");

    let process = Process::start(&database.url, start(), &[]);
    let api = Api::new(process.base(), Some(&token));
    let mut kept = Vec::new();
    let mut path = path.to_owned();
    loop {
        let page = done(api.get(&path).await);
        let items = page["items"].as_array().expect("items");
        kept.extend(items.iter().map(|lease| lease["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/accounts/acme/leases?limit=1000&cursor={next}");
    }
    acknowledged.sort();
    kept.sort();
    assert_eq!(kept, acknowledged);
}
