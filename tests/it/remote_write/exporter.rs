//! A tiny exporter: the counter of one sandbox as cAdvisor shows it, that grows with the time of this machine.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::harness::Time;

/// What it knows.
#[derive(Default)]
struct Counter {
    /// When the counter that runs began; milliseconds since the epoch.
    began: i64,
    /// What was read of it last, in microseconds, and when.
    read: (i64, i64),
    /// What counters before it had counted when they were last read.
    before: i64,
    /// Whether it stands still.
    frozen: bool,
}

/// A running exporter; it ends with the test.
pub(super) struct Exporter {
    pub(super) address: SocketAddr,
    counter: Arc<Mutex<Counter>>,
    scrapes: watch::Receiver<u64>,
}

/// The time of this machine.
pub(super) fn now() -> Time {
    Time(runtab::clock::Clock::system().now().ms())
}

impl Exporter {
    /// Of the lease `l`, the sandbox `s-l` and the account `acme`.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let began = now().0;
        let counter = Arc::new(Mutex::new(Counter { began, read: (0, began), ..Counter::default() }));
        let (scraped, scrapes) = watch::channel(0);
        let shared = counter.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4_096];
                if stream.read(&mut request).await.is_ok() {
                    let body = locked(&shared).page();
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
                    let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
                    stream.write_all(answer.as_bytes()).await.ok();
                    scraped.send_modify(|count| *count += 1);
                }
            }
        });
        Self { address, counter, scrapes }
    }

    /// Waits for so many scrapes more.
    pub(super) async fn scraped(&self, more: u64) {
        let mut scrapes = self.scrapes.clone();
        let goal = *scrapes.borrow() + more;
        scrapes.wait_for(|count| *count >= goal).await.expect("the exporter runs");
    }

    /// The counter begins again, at zero.
    pub(super) fn restart_counter(&self) {
        let mut counter = locked(&self.counter);
        let at = now().0;
        counter.before += counter.read.0;
        (counter.began, counter.read) = (at, (0, at));
    }

    /// The counter stands still from now on; what all counters have counted, in microseconds.
    pub(super) fn freeze(&self) -> i64 {
        let mut counter = locked(&self.counter);
        counter.frozen = true;
        counter.before + counter.read.0
    }
}

fn locked(counter: &Mutex<Counter>) -> std::sync::MutexGuard<'_, Counter> {
    counter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counter {
    /// Reads the counter: seven tenths of a CPU.
    fn page(&mut self) -> String {
        let at = now().0;
        if !self.frozen {
            self.read = (self.read.0 + (at - self.read.1) * 700, at);
        }
        let labels = r#"container_label_runtab_account="acme",container_label_runtab_sandbox="s-l",container_label_runtab_lease="l",id="/docker/1""#;
        let us = self.read.0;
        let (seconds, rest) = (us / 1_000_000, us % 1_000_000);
        let (start, start_rest) = (self.began / 1_000, self.began % 1_000);
        format!(
            "container_cpu_usage_seconds_total{{cpu=\"total\",{labels}}} {seconds}.{rest:06}\n\
             container_cpu_usage_seconds_total{{cpu=\"total\",id=\"/\"}} 123456.5\n\
             container_start_time_seconds{{{labels}}} {start}.{start_rest:03}\n\
             container_spec_memory_limit_bytes{{{labels}}} 4294967296\n\
             container_fs_usage_bytes{{device=\"sda\",{labels}}} 1048576\n\
             container_fs_usage_bytes{{device=\"sdb\",{labels}}} 2097152\n"
        )
    }
}
