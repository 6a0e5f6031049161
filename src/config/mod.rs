//! Typed settings, one file a section, checked on load.
//!
//! A setting comes from, the later winning: its default, the file (TOML), its environment variable, its flag. Unknown
//! keys are errors, and an error names the file, the line and the key, or the variable. `config/default.toml` has
//! every setting with its unit and reason; a test holds it equal to the defaults here.

pub mod agent;
pub mod invoice;
pub mod ledger;
pub mod rates;
pub mod remote_write;
pub mod section;
pub mod server;
pub mod store;
pub mod telemetry;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use section::{BadVariable, Known, OutOfBounds};
use serde::Deserialize;
use store::DatabaseUrl;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The HTTP edge.
    pub server: server::Server,
    /// The database.
    pub store: store::Store,
    /// The ledger.
    pub ledger: ledger::Ledger,
    /// Logs.
    pub telemetry: telemetry::Telemetry,
    /// The list prices.
    pub rates: rates::Rates,
    /// What stands on invoices.
    pub invoice: invoice::Invoice,
    /// Prometheus remote write.
    pub remote_write: remote_write::RemoteWrite,
}

/// What flags say; `None` leaves what the file or the environment says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--database`.
    pub database: Option<DatabaseUrl>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
}

/// Why settings can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{place}: {detail}")]
    File {
        /// The file, and the line where it is known.
        place: String,
        /// What is wrong, naming the key.
        detail: String,
    },
    /// An environment variable is not what it should be.
    #[error("{}: {}", .0.variable, .0.detail)]
    Variable(BadVariable),
}

impl Settings {
    /// Reads the settings: `file` if there is one, then the environment through `variable`, then `flags`.
    pub fn load(
        file: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<String>,
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let (name, text) = read(file)?;
        Self::from_text(&name, &text, variable, flags)
    }

    /// [`Settings::load`] on a text; `name` is what errors call it.
    pub fn from_text(
        name: &str,
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let mut settings: Self = parse(name, text)?;
        settings.check().map_err(|bad| bad.in_file(name, text))?;
        settings.overlay(variable).map_err(ConfigError::Variable)?;
        settings.check().map_err(Misfit::in_environment)?;
        if let Some(database) = flags.database {
            settings.store.database = database;
        }
        if let Some(listen) = flags.listen {
            settings.server.listen = listen;
        }
        settings.check().map_err(|bad| bad.in_file("flags", ""))?;
        Ok(settings)
    }

    fn overlay(&mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<(), BadVariable> {
        self.server.overlay(variable)?;
        self.store.overlay(variable)?;
        self.ledger.overlay(variable)?;
        self.telemetry.overlay(variable)?;
        self.rates.overlay(variable)?;
        self.invoice.overlay(variable)?;
        self.remote_write.overlay(variable)
    }

    fn check(&self) -> Result<(), Misfit> {
        let checks = [
            ("server", self.server.check()),
            ("store", self.store.check()),
            ("ledger", self.ledger.check()),
            ("telemetry", self.telemetry.check()),
            ("rates", self.rates.check()),
            ("invoice", self.invoice.check()),
            ("remote_write", self.remote_write.check()),
        ];
        checks.into_iter().try_for_each(|(section, checked)| checked.map_err(|bad| Misfit { section, bad }))
    }

    /// Every setting there is.
    pub fn known() -> impl Iterator<Item = &'static Known> {
        let sections = [
            server::Server::KNOWN,
            store::Store::KNOWN,
            ledger::Ledger::KNOWN,
            telemetry::Telemetry::KNOWN,
            rates::Rates::KNOWN,
            invoice::Invoice::KNOWN,
            remote_write::RemoteWrite::KNOWN,
        ];
        sections.into_iter().flatten()
    }
}

/// The text of a file and what errors call it; nothing when there is none.
fn read(file: Option<&Path>) -> Result<(String, String), ConfigError> {
    let Some(path) = file else { return Ok((String::new(), String::new())) };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((path.display().to_string(), text)),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

/// Reads a document of settings strictly; an error names the file, the line and the key.
fn parse<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.split('\n').count());
        let place = line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
        let key = line.and_then(|line| key_at(text, line)).map_or_else(String::new, |key| format!("{key}: "));
        ConfigError::File { place, detail: format!("{key}{}", error.message()) }
    })
}

/// A value out of its bounds, and in which section.
struct Misfit {
    section: &'static str,
    bad: OutOfBounds,
}

impl Misfit {
    fn in_file(self, name: &str, text: &str) -> ConfigError {
        let line = line_of(text, self.section, self.bad.key);
        let place = line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
        ConfigError::File { place, detail: format!("{}.{}: {}", self.section, self.bad.key, self.bad.detail) }
    }

    fn in_environment(self) -> ConfigError {
        self.in_variable(Settings::known())
    }

    fn in_variable(self, mut known: impl Iterator<Item = &'static Known>) -> ConfigError {
        let known = known.find(|known| known.section == self.section && known.key == self.bad.key);
        let variable = known.map_or("environment", |known| known.variable);
        ConfigError::Variable(BadVariable { variable, detail: self.bad.detail })
    }
}

/// The line, from 1, that sets a key; for telling people where a value stands.
fn line_of(text: &str, section: &str, key: &str) -> Option<usize> {
    let mut current = String::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            header.0.trim().clone_into(&mut current);
        }
        let name = line.split('=').next().unwrap_or_default().trim();
        if (current == section && name == key) || (current.is_empty() && name == format!("{section}.{key}")) {
            return Some(number);
        }
    }
    None
}

/// `section.key` of a line, as far as the line says it.
fn key_at(text: &str, line: usize) -> Option<String> {
    let above: Vec<&str> = text.lines().take(line).collect();
    let (key, _) = above.last()?.split_once('=')?;
    let header = above.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    Some(header.map_or_else(|| key.trim().to_owned(), |header| format!("{}.{}", header.trim(), key.trim())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Flags, Settings};

    const DEFAULT: &str = include_str!("../../config/default.toml");

    fn none(_: &str) -> Option<String> {
        None
    }

    fn error(text: &str) -> String {
        Settings::from_text("my.toml", text, &none, Flags::default()).unwrap_err().to_string()
    }

    #[test]
    fn the_default_file_says_the_defaults_and_leaves_none_out() {
        let read = Settings::from_text("default.toml", DEFAULT, &none, Flags::default()).unwrap();
        assert_eq!(read, Settings::default());
        for known in Settings::known() {
            assert!(super::line_of(DEFAULT, known.section, known.key).is_some(), "{}.{}", known.section, known.key);
            assert!(DEFAULT.contains(known.variable), "{} is not named", known.variable);
        }
        let lines: Vec<&str> = DEFAULT.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
            assert!(lines[index - 1].starts_with('#'), "{line:?} has no comment");
        }
    }

    #[test]
    fn every_variable_is_its_own_and_is_read() {
        let variables: BTreeSet<_> = Settings::known().map(|known| known.variable).collect();
        assert_eq!(variables.len(), Settings::known().count());
        for known in Settings::known() {
            let broken = |name: &str| (name == known.variable).then(|| "?? [\0".to_owned());
            let error = Settings::from_text("", "", &broken, Flags::default()).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{}: ", known.variable)), "{error}");
        }
    }

    #[test]
    fn an_error_names_the_file_the_line_and_the_key() {
        assert_eq!(
            error("[server]\n\nlisten_port = 3\n"),
            "my.toml:3: server.listen_port: unknown field `listen_port`, expected one of `listen`, `body_bytes_max`, \
             `samples_bytes_max`, `request_timeout_ms`, `requests_max`, `drain_deadline_ms`"
        );
        assert_eq!(
            error("[ledger]\nwelcome_hours = \"many\"\n"),
            "my.toml:2: ledger.welcome_hours: invalid type: string \"many\", expected i64"
        );
        assert_eq!(
            error("[rates]\n# dear\ncpu_floor_millicores = 1001\n"),
            "my.toml:3: rates.cpu_floor_millicores: 1001 is not from 0 to 1000"
        );
        assert_eq!(
            error("store.database = \"mysql://x\"\n"),
            "my.toml:1: store.database: mysql://x is neither sqlite:PATH nor postgres://..."
        );
    }

    #[test]
    fn the_environment_wins_over_the_file_and_a_flag_over_both() {
        let file = "[store]\ndatabase = \"sqlite:file.db\"\n[server]\nlisten = \"127.0.0.1:1\"\nrequests_max = 7\n";
        let variable = |name: &str| match name {
            "RUNTAB_DATABASE" => Some("sqlite:env.db".to_owned()),
            "RUNTAB_LISTEN" => Some("127.0.0.1:2".to_owned()),
            _ => None,
        };
        let flags = Flags { database: Some("sqlite:flag.db".parse().unwrap()), listen: None };
        let settings = Settings::from_text("my.toml", file, &variable, flags).unwrap();
        assert_eq!(settings.store.database.expose(), "sqlite:flag.db");
        assert_eq!(settings.server.listen.port(), 2);
        assert_eq!(settings.server.requests_max, 7);
    }
}
