//! A lean HTTP/1.1 client for load: one connection a task, requests written as whole texts, answers read only as far as
//! their length and status, so that the client takes little of the machine from the server that it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

/// What one connection sends, request by request.
pub(super) trait Work: Send + 'static {
    /// What every good answer's body contains.
    const EXPECTED: &'static str;
    /// The next request, whole; `None` when there is nothing more to send.
    fn next(&mut self) -> Option<&[u8]>;
}

/// How fast requests were answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Requests answered.
    pub(super) requests: u64,
    /// From the first request to the last answer, in microseconds; never 0.
    pub(super) elapsed_us: u64,
    /// Half of the answers came within this time, in microseconds.
    pub(super) p50_us: u64,
    /// 99 of 100 answers came within this time, in microseconds.
    pub(super) p99_us: u64,
    /// Processor time that the servers took, in microseconds; 0 until somebody has looked.
    pub(super) cpu_us: u64,
}

impl Pace {
    /// Units a second, when each request carries so many.
    pub(super) fn per_second(&self, units: u64) -> u64 {
        let units = u128::from(self.requests).saturating_mul(u128::from(units)).saturating_mul(1_000_000);
        let rate = units.checked_div(u128::from(self.elapsed_us)).unwrap_or_default();
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Processor time of the servers for each unit, in nanoseconds.
    pub(super) fn cpu_ns_each(&self, units: u64) -> u64 {
        let units = self.requests.saturating_mul(units);
        self.cpu_us.saturating_mul(1_000).checked_div(units).unwrap_or_default()
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring: how long an answer took decides nothing")]
fn now() -> Instant {
    Instant::now()
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Drives each piece of work on a connection of its own, all at once, for at most `time`; connections take the
/// addresses in turn. Answers the pace, and the work as far as it came. Any answer that is not a success is an error.
pub(super) async fn drive<W: Work>(
    addresses: &[SocketAddr],
    works: Vec<W>,
    time: Duration,
) -> anyhow::Result<(Pace, Vec<W>)> {
    let gate = Arc::new(Barrier::new(works.len().saturating_add(1)));
    let turns = addresses.iter().copied().cycle();
    let mut connections = Vec::new();
    for (address, work) in turns.zip(works) {
        let stream = TcpStream::connect(address).await.with_context(|| format!("can't connect to {address}"))?;
        stream.set_nodelay(true)?;
        connections.push(tokio::spawn(converse(stream, work, Arc::clone(&gate), time)));
    }
    gate.wait().await;
    let began = now();
    let (mut times, mut works) = (Vec::new(), Vec::new());
    for connection in connections {
        let (mut mine, work) = connection.await.context("a connection's task broke off")??;
        times.append(&mut mine);
        works.push(work);
    }
    let elapsed_us = micros(began).max(1);
    times.sort_unstable();
    let at = |percent: usize| {
        let place = times.len().saturating_mul(percent) / 100;
        times.get(place).or(times.last()).copied().unwrap_or_default()
    };
    let requests = u64::try_from(times.len()).unwrap_or(u64::MAX);
    Ok((Pace { requests, elapsed_us, p50_us: at(50), p99_us: at(99), cpu_us: 0 }, works))
}

async fn converse<W: Work>(
    mut stream: TcpStream,
    mut work: W,
    gate: Arc<Barrier>,
    time: Duration,
) -> anyhow::Result<(Vec<u64>, W)> {
    let mut answer = Vec::with_capacity(16 * 1_024);
    let mut times = Vec::new();
    gate.wait().await;
    let started = now();
    loop {
        let began = now();
        if began.duration_since(started) >= time {
            break;
        }
        let Some(request) = work.next() else { break };
        stream.write_all(request).await.context("a request could not be sent")?;
        receive(&mut stream, &mut answer, W::EXPECTED).await?;
        times.push(micros(began));
    }
    Ok((times, work))
}

/// Reads one answer into the buffer, and checks it.
async fn receive(stream: &mut TcpStream, answer: &mut Vec<u8>, expected: &str) -> anyhow::Result<()> {
    answer.clear();
    let length = loop {
        if stream.read_buf(answer).await.context("an answer could not be read")? == 0 {
            bail!("the server closed a connection");
        }
        if let Some(length) = whole(answer)? {
            break length;
        }
    };
    while answer.len() < length {
        if stream.read_buf(answer).await.context("an answer could not be read")? == 0 {
            bail!("the server closed a connection amid an answer");
        }
    }
    if !answer.starts_with(b"HTTP/1.1 2") || memmem::find(answer, expected.as_bytes()).is_none() {
        let text = String::from_utf8_lossy(answer);
        bail!("not the answer that was expected: {}", text.chars().take(1_000).collect::<String>());
    }
    Ok(())
}

/// The length of head and body, once the head is there.
fn whole(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = memmem::find(answer, b"\r\n\r\n") else { return Ok(None) };
    let head = answer.get(..end).unwrap_or_default();
    let name = b"content-length: ";
    let digits = memmem::find(head, name).and_then(|at| head.get(at.saturating_add(name.len())..)).unwrap_or(b"0");
    let digits = digits.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let body: usize = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).context("no length")?;
    Ok(Some(end.saturating_add(4).saturating_add(body)))
}

#[cfg(test)]
mod tests {
    use super::{Pace, whole};

    #[test]
    fn an_answer_is_as_long_as_it_says() {
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap(), None);
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{").unwrap(), Some(51));
        assert_eq!(whole(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), Some(27));
    }

    #[test]
    fn a_pace_counts_units() {
        let pace = Pace { requests: 10, elapsed_us: 500_000, p50_us: 1, p99_us: 1, cpu_us: 40 };
        assert_eq!((pace.per_second(1), pace.per_second(1_000), pace.cpu_ns_each(2)), (20, 20_000, 2_000));
    }
}
