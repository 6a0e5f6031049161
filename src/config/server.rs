//! `[server]`: the address, and what bounds a request.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::section::{OutOfBounds, bounded, section};

section! {
    /// The HTTP edge.
    Server = "server" {
        /// Address and port to listen on; port 0 takes a free one. Loopback by default: a proxy ends TLS.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_080)), "RUNTAB_LISTEN";
        /// Largest body, in bytes: a thousand leases take a third of it.
        body_bytes_max: i64 = 1_024 * 1_024, "RUNTAB_SERVER_BODY_BYTES_MAX";
        /// Largest body of samples after decompression, in bytes: 10,000 take a quarter of it; a bomb stops here.
        samples_bytes_max: i64 = 8 * 1_024 * 1_024, "RUNTAB_SERVER_SAMPLES_BYTES_MAX";
        /// Longest time that a request may take, in milliseconds; then the answer is 503 and the id can be repeated.
        request_timeout_ms: i64 = 30_000, "RUNTAB_SERVER_REQUEST_TIMEOUT_MS";
        /// Most requests in work at once; more are answered 503 at once instead of waiting without limit.
        requests_max: i64 = 1_024, "RUNTAB_SERVER_REQUESTS_MAX";
        /// Longest time that a stopping server waits for accepted requests, in milliseconds.
        drain_deadline_ms: i64 = 20_000, "RUNTAB_SERVER_DRAIN_DEADLINE_MS";
    }
}

impl Server {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        bounded("body_bytes_max", self.body_bytes_max, 65_536, 1_073_741_824)?;
        bounded("samples_bytes_max", self.samples_bytes_max, 65_536, 1_073_741_824)?;
        bounded("request_timeout_ms", self.request_timeout_ms, 100, 600_000)?;
        bounded("requests_max", self.requests_max, 1, 100_000)?;
        bounded("drain_deadline_ms", self.drain_deadline_ms, 0, 600_000)
    }

    /// [`Server::body_bytes_max`] as a size.
    #[must_use]
    pub fn body_limit(&self) -> usize {
        usize::try_from(self.body_bytes_max).unwrap_or(usize::MAX)
    }

    /// [`Server::samples_bytes_max`] as a size.
    #[must_use]
    pub fn samples_limit(&self) -> usize {
        usize::try_from(self.samples_bytes_max).unwrap_or(usize::MAX)
    }

    /// [`Server::requests_max`] as a count.
    #[must_use]
    pub fn request_limit(&self) -> usize {
        usize::try_from(self.requests_max).unwrap_or(usize::MAX)
    }

    /// [`Server::request_timeout_ms`] as a duration.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms.unsigned_abs())
    }

    /// [`Server::drain_deadline_ms`] as a duration.
    #[must_use]
    pub fn drain_deadline(&self) -> Duration {
        Duration::from_millis(self.drain_deadline_ms.unsigned_abs())
    }
}
