//! `[telemetry]`: what is logged, and how.

use std::str::FromStr;

use serde::Deserialize;

use super::section::{OutOfBounds, section};

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("a log format is text or json"),
        }
    }
}

section! {
    /// Logs; they go to standard error.
    Telemetry = "telemetry" {
        /// `text` for people, `json` for machines.
        log_format: LogFormat = LogFormat::Text, "RUNTAB_LOG_FORMAT";
        /// A level (error, warn, info, debug, trace), or directives such as `info,runtab::http=debug`.
        log_level: String = "info".to_owned(), "RUNTAB_LOG_LEVEL";
    }
}

impl Telemetry {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        match tracing_subscriber::EnvFilter::try_new(&self.log_level) {
            Ok(_) => Ok(()),
            Err(error) => Err(OutOfBounds { key: "log_level", detail: error.to_string() }),
        }
    }
}
