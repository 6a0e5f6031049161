//! What the command line tells when it can't do what it is asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

fn runtab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_runtab")).args(arguments).env("RUNTAB_LOG_LEVEL", "warn").output().unwrap()
}

#[test]
fn a_file_that_is_not_there_is_told_and_not_made() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("typo.db");
    let database = format!("sqlite:{}", file.display());
    for command in [
        &["verify"][..],
        &["report", "2026-10"],
        &["export", "2026-10"],
        &["close", "2026-10"],
        &["archive", "2026-10"],
        &["evidence", "acme", "2026-10"],
        &["token", "list"],
    ] {
        let output = runtab(&[command, &["--database", &database]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
        assert!(told.contains("typo.db") && told.contains("runtab migrate"), "{command:?}: {told}");
        assert!(!file.exists(), "{command:?}");
    }
    assert!(runtab(&["migrate", "--database", &database]).status.success());
    assert!(runtab(&["verify", "--database", &database]).status.success());
}

#[test]
fn why_a_server_can_not_be_reached_is_told() {
    // A port that was free a moment ago, and that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let database = format!("postgres://nobody:secret@127.0.0.1:{port}/none");
    let output = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["migrate", "--database", &database])
        .env("RUNTAB_STORE_WAIT_MS_MAX", "100")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("refused") && !told.contains("secret"), "{told}");
}

#[test]
fn a_log_that_can_not_be_written_stops_nobody() {
    let home = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", home.path().join("fresh.db").display());
    // Every line that is written to it fails, as on a full disk.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut engine = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["serve", "--listen", "127.0.0.1:0", "--database", &database])
        .env("RUNTAB_LOG_LEVEL", "debug")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(engine.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut ready = String::new();
    if let Some(address) = line.trim_end().strip_prefix("listening on http://") {
        let mut server = TcpStream::connect(address).unwrap();
        server.write_all(b"GET /readyz HTTP/1.1\r\nhost: runtab\r\nconnection: close\r\n\r\n").unwrap();
        server.read_to_string(&mut ready).unwrap();
    }
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert!(ready.starts_with("HTTP/1.1 200 "), "{line:?} {ready:?}");
}
