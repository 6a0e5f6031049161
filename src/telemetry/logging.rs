//! Logs: structured lines on standard error, with every secret masked.
//!
//! Nothing logs a header, a body or a query; masking is the second wall behind that.

use std::borrow::Cow;
use std::io::{self, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::secret::SECRET_PREFIX;

pub use crate::config::telemetry::LogFormat;

/// Sets up logging for the whole process. `filter` is in the syntax of `tracing_subscriber::EnvFilter`, such as
/// `info` or `runtab=debug,warn`; an error when it does not parse, or when logging was set up before.
pub fn init(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    // A line that can't be written is lost. To tell of it on standard error, too, would panic there: a full disk would end
    // whoever logs.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Masked)
        .with_target(true)
        .log_internal_errors(false);
    let result = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
    };
    result.map_err(|error| anyhow::anyhow!("logging can't be set up: {error}"))
}

/// Makes writers to standard error that mask secrets.
struct Masked;

impl<'a> MakeWriter<'a> for Masked {
    type Writer = MaskingWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        MaskingWriter(io::stderr())
    }
}

/// Masks secrets in what it is given; a log line comes in one piece.
struct MaskingWriter<W>(W);

impl<W: Write> Write for MaskingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(line) => self.0.write_all(mask(line).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The text with every secret of ours cut after its prefix.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    if !text.contains(SECRET_PREFIX) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(SECRET_PREFIX);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).unwrap_or(part.len());
        let (token, rest) = part.split_at_checked(end).unwrap_or((part, ""));
        masked.push_str(SECRET_PREFIX);
        // Names of metrics begin like secrets but are short; 32 characters are half of the random part.
        masked.push_str(if token.len() < 32 { token } else { "***" });
        masked.push_str(rest);
    }
    Cow::Owned(masked)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{MaskingWriter, mask};
    use crate::secret::{Secret, SecretKind};

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let secret = Secret::from_random(SecretKind::Key, &[1; 32]).into_text();
        let line = format!("sent \"{secret}\", and {secret}; runtab_http_requests_total\n");
        let expected = "sent \"runtab_***\", and runtab_***; runtab_http_requests_total\n";
        assert_eq!(mask(&line), expected);
        let mut writer = MaskingWriter(Vec::new());
        writer.write_all(line.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(writer.0).unwrap(), expected);
        assert_eq!(mask("plain"), "plain");
    }
}
