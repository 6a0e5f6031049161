//! Who may name whom.

use super::{Source, has_word, library, none};

/// The modules in the order of their layers; a module names those before it and itself. Those with one number stand
/// beside each other and know nothing of one another.
const LAYERS: [(u8, &str); 17] = [
    (0, "domain"),
    (1, "clock"),
    (1, "secret"),
    (2, "report"),
    (2, "store"),
    (3, "config"),
    (4, "ledger"),
    (4, "telemetry"),
    (5, "wire"),
    (6, "agent"),
    (6, "ingest"),
    (6, "jobs"),
    (7, "http"),
    (8, "cli"),
    (9, "lib"),
    (9, "main"),
    (9, "bin"),
];

/// Words of SQL that nothing but SQL has, as a statement begins.
const SQL: [&str; 6] = ["SELECT ", "INSERT INTO", "DELETE FROM", "CREATE TABLE", "UPDATE SET", "BEGIN IMMEDIATE"];

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(_, name)| *name == module).map(|(layer, _)| *layer)
}

/// Modules of the crate that a line of code names.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let paths = ["crate::", "runtab::"].into_iter().flat_map(move |start| line.split(start).skip(1));
    paths.map(|rest| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(rest))
}

fn each_line(files: &[Source], fault: impl Fn(&Source, &str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        for (number, line) in file.code() {
            faults.extend(fault(file, line).map(|what| format!("{}:{number}: {what}: {}", file.path, line.trim())));
        }
    }
    faults
}

#[test]
fn imports_point_down_only() {
    let files = library();
    let mut faults = Vec::new();
    for file in &files {
        let module = file.module().expect("a module");
        let Some(own) = layer(module) else {
            faults.push(format!("{}: the module `{module}` has no layer", file.path));
            continue;
        };
        for (number, line) in file.code() {
            for name in named(line).filter(|name| *name != module) {
                let down = layer(name).is_none_or(|other| other < own);
                if !down {
                    faults.push(format!("{}:{number}: `{module}` names `{name}`", file.path));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn the_core_names_only_itself_and_std() {
    let known = ["std", "core", "alloc", "crate", "self", "super", "pub"];
    let files: Vec<Source> = library().into_iter().filter(|file| file.module() == Some("domain")).collect();
    assert!(!files.is_empty());
    let mut faults = each_line(&files, |_, line| {
        let import = line.trim_start().strip_prefix("pub ").unwrap_or(line.trim_start()).strip_prefix("use ")?;
        let first = import.split("::").next().unwrap_or(import).trim_end_matches(';');
        // A name without a path is of this module: `use Resource::Cpu`.
        let own = first.starts_with(char::is_uppercase);
        (!own && !known.contains(&first) && !files.iter().any(|file| file.path == format!("src/domain/{first}.rs")))
            .then(|| "an import of another crate".to_owned())
    });
    let foreign = ["serde", "serde_json", "sqlx", "chrono", "tokio", "axum", "utoipa", "thiserror", "tracing", "async"];
    faults.extend(each_line(&files, |_, line| {
        let found = foreign.iter().find(|name| has_word(line, name))?;
        Some(format!("`{found}` in the core"))
    }));
    none(faults);
}

#[test]
fn sql_is_in_the_store_only() {
    let files: Vec<Source> = library().into_iter().filter(|file| file.module() != Some("store")).collect();
    none(each_line(&files, |_, line| {
        let statement = SQL.iter().find(|word| line.contains(*word));
        let driver = has_word(line, "sqlx").then_some(&"sqlx");
        statement.or(driver).map(|found| format!("`{found}` outside the store"))
    }));
}

#[test]
fn only_the_dialect_asks_which_back_end_it_is() {
    let apart = |path: &str| path.starts_with("src/store/dialect") || !path.starts_with("src/store/");
    let files: Vec<Source> = library().into_iter().filter(|file| !apart(&file.path)).collect();
    let asks =
        ["Dialect::Sqlite", "Dialect::Postgres", "Backend::Sqlite", "Backend::Postgres", "is_sqlite", "is_postgres"];
    none(each_line(&files, |_, line| {
        let found = asks.iter().find(|ask| line.contains(*ask))?;
        Some(format!("`{found}` outside src/store/dialect.rs"))
    }));
}

/// JSON shapes are in `wire/`; a configuration file's are its own, and so are those that SQL is given as rows.
#[test]
fn json_shapes_are_in_the_wire_only() {
    let apart = ["wire", "config", "store", "agent", "cli"];
    let files: Vec<Source> =
        library().into_iter().filter(|file| !apart.contains(&file.module().unwrap_or_default())).collect();
    let shapes = ["Serialize", "Deserialize", "ToSchema"];
    none(each_line(&files, |_, line| {
        let derives = line.contains("derive(") || line.trim_start().starts_with("impl");
        let found = shapes.iter().find(|shape| derives && has_word(line, shape))?;
        Some(format!("`{found}` outside src/wire/"))
    }));
}

#[test]
fn no_floating_point_where_usage_and_money_are() {
    let exact = ["domain", "ledger", "store", "wire"];
    let files: Vec<Source> =
        library().into_iter().filter(|file| exact.contains(&file.module().unwrap_or_default())).collect();
    none(each_line(&files, |_, line| {
        let found = ["f32", "f64"].into_iter().find(|float| has_word(line, float))?;
        Some(format!("`{found}` where everything is exact"))
    }));
}

#[test]
fn only_the_clock_reads_the_time() {
    let files: Vec<Source> = library().into_iter().filter(|file| file.path != "src/clock.rs").collect();
    none(each_line(&files, |_, line| {
        let reads = ["SystemTime::now", "Utc::now", "Local::now"];
        let found = reads.into_iter().find(|read| line.contains(read))?;
        Some(format!("`{found}` outside src/clock.rs"))
    }));
}

#[test]
fn the_ledger_does_no_arithmetic_on_money() {
    let files: Vec<Source> = library().into_iter().filter(|file| file.module() == Some("ledger")).collect();
    none(each_line(&files, |_, line| {
        let found =
            ["460_800_000_000", "3_600_000_000", "as i128", "as i64"].into_iter().find(|sum| line.contains(sum))?;
        Some(format!("`{found}` in the ledger"))
    }));
}
