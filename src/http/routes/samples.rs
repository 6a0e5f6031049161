//! Samples of hosts: row by row, answered after the commit.

use std::collections::BTreeMap;

use axum::extract::{Request, State};

use super::ok;
use crate::domain::id::HostId;
use crate::domain::sample::Sample;
use crate::domain::set_aside::{ASIDE_CHARS_MAX, Door, SetAside, cut};
use crate::http::Shared;
use crate::http::auth::Reporter;
use crate::http::encoding::read_packed;
use crate::http::extract::{NoQuery, is_of};
use crate::http::problem::{Answer, Failure};
use crate::ingest::ndjson::{BadBatch, Rows, read_array, read_lines};
use crate::ledger::aside::Keep;
use crate::ledger::command::{Ingest, SampleOutcome};
use crate::ledger::parts::of_sample;
use crate::telemetry::metrics::Metrics;
use crate::wire::problem::Code;
use crate::wire::sample::{Ingested, RejectedSample, SampleBatch};

/// Takes at most 10,000 samples; one bad sample never spoils its batch. Bodies may be compressed with gzip or zstd and
/// have at most 8 MiB when they are not.
#[utoipa::path(post, path = "/v1/samples", operation_id = "ingest_samples", tag = "samples",
    request_body(content(
        (SampleBatch = "application/json"),
        (String = "application/x-ndjson"),
    )),
    responses((status = 200, description = "What became of each.", body = Ingested)))]
pub(in crate::http) async fn ingest(
    Reporter(host): Reporter,
    _: NoQuery,
    State(state): State<Shared>,
    request: Request,
) -> Answer {
    let headers = request.headers();
    let read = if is_of(headers, "application/json") {
        read_array
    } else if is_of(headers, "application/x-ndjson") {
        read_lines
    } else {
        let detail = "send Content-Type: application/json or application/x-ndjson";
        return Err(Failure::new(Code::UnsupportedMediaType, detail));
    };
    let body = read_packed(request, state.settings.samples_bytes_max).await?;
    let rows = read(&body)?;
    drop(body);
    let Rows { samples, indices, rejected } = rows;
    let command = Ingest { host: host.clone(), samples: samples.clone() };
    let outcomes = if samples.is_empty() { Vec::new() } else { state.ledger.ingest(command).await? };
    let aside = set_aside(host.as_ref(), &samples, &outcomes, &rejected);
    // The sender is told all of it anyway: its samples are in the ledger.
    if let Err(error) = state.ledger.keep(Keep { aside, ..Keep::default() }).await {
        tracing::warn!(%error, "rejected samples could not be kept for people");
    }
    let answer = merged(&indices, &outcomes, rejected);
    count(&state.metrics, &answer);
    ok(answer)
}

impl From<BadBatch> for Failure {
    fn from(bad: BadBatch) -> Self {
        match bad {
            BadBatch::NotJson(fault) => fault.into(),
            BadBatch::NoArray(invalid) => invalid.into(),
            BadBatch::TooMany => Self::new(Code::PayloadTooLarge, "send at most 10,000 samples in one request"),
        }
    }
}

/// What the ledger said of the good rows, and the bad rows, in the order of the request.
fn merged(indices: &[usize], outcomes: &[SampleOutcome], unreadable: Vec<RejectedSample>) -> Ingested {
    let mut answer = Ingested { rejected: unreadable, ..Ingested::default() };
    for (index, outcome) in indices.iter().zip(outcomes) {
        match outcome {
            SampleOutcome::Accepted => answer.accepted = answer.accepted.saturating_add(1),
            SampleOutcome::Duplicate => answer.duplicates = answer.duplicates.saturating_add(1),
            SampleOutcome::Rejected(code) => answer.rejected.push(RejectedSample::new(*index, *code)),
        }
    }
    answer.rejected.sort_by_key(|row| row.index);
    answer
}

/// What is not used, as it is kept for people.
fn set_aside(
    host: Option<&HostId>,
    samples: &[Sample],
    outcomes: &[SampleOutcome],
    unreadable: &[RejectedSample],
) -> Vec<SetAside> {
    let judged = samples.iter().zip(outcomes).filter_map(|(sample, outcome)| match outcome {
        SampleOutcome::Rejected(code) => Some(of_sample(Door::Samples, host, sample, *code)),
        SampleOutcome::Accepted | SampleOutcome::Duplicate => None,
    });
    let unread = unreadable.iter().map(|row| SetAside {
        account: None,
        door: Door::Samples,
        host: host.cloned(),
        sandbox: None,
        lease: None,
        at: None,
        code: row.code,
        detail: cut(&row.detail, ASIDE_CHARS_MAX),
    });
    unread.chain(judged).collect()
}

fn count(metrics: &Metrics, answer: &Ingested) {
    let mut outcomes = BTreeMap::from([("accepted", answer.accepted), ("duplicate", answer.duplicates)]);
    for row in &answer.rejected {
        let count = outcomes.entry(row.code).or_default();
        *count = count.saturating_add(1);
    }
    for (outcome, count) in outcomes {
        metrics.samples(outcome, u64::try_from(count).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::merged;
    use crate::domain::sample::RejectCode;
    use crate::ledger::command::SampleOutcome::{Accepted, Duplicate, Rejected};
    use crate::wire::sample::RejectedSample;

    #[test]
    fn rejections_are_in_the_order_of_the_request() {
        let unreadable = vec![RejectedSample::unreadable(1, "no".to_owned())];
        let outcomes = [Rejected(RejectCode::Future), Accepted, Duplicate, Rejected(RejectCode::Conflict)];
        let answer = merged(&[0, 2, 3, 4], &outcomes, unreadable);
        assert_eq!((answer.accepted, answer.duplicates), (1, 1));
        let rejected: Vec<_> = answer.rejected.iter().map(|row| (row.index, row.code)).collect();
        assert_eq!(rejected, [(0, "future"), (1, "invalid_sample"), (4, "conflict")]);
    }
}
