//! What an error of a driver means to the caller.

use super::super::error::StoreError;

/// [`failed`], with the name of the statement.
pub(super) fn failed_in(what: &str, error: &sqlx::Error) -> StoreError {
    match failed(error) {
        StoreError::Unavailable(detail) => StoreError::Unavailable(format!("{what}: {detail}")),
        StoreError::Again(detail) => StoreError::Again(format!("{what}: {detail}")),
        StoreError::Stale(detail) => StoreError::Stale(format!("{what}: {detail}")),
        StoreError::Unknown(detail) => StoreError::Unknown(format!("{what}: {detail}")),
        StoreError::Overflow => StoreError::Overflow,
        StoreError::Corrupt(detail) => StoreError::Corrupt(format!("{what}: {detail}")),
        StoreError::Constraint(detail) => StoreError::Constraint(format!("{what}: {detail}")),
    }
}

/// What an error of the driver means to the caller.
pub(super) fn failed(error: &sqlx::Error) -> StoreError {
    let detail = error.to_string();
    match error {
        sqlx::Error::Database(inside) => {
            let code = inside.code().unwrap_or_default();
            if inside.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
                sqlite_failed(&code, detail)
            } else {
                postgres_failed(&code, detail)
            }
        }
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::RowNotFound
        | sqlx::Error::Encode(_) => StoreError::Corrupt(detail),
        // The connection is gone, and with it whatever was not committed.
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => StoreError::Again(detail),
        _ => StoreError::Unavailable(detail),
    }
}

/// What a failed commit on a server means. Only what the server itself refuses is known not to be done: a session that
/// is shut down may have committed already (it says so after waiting for a standby, too).
pub(super) fn uncommitted(error: &sqlx::Error) -> StoreError {
    let refused = match error {
        sqlx::Error::Database(inside) => {
            let code = inside.code().unwrap_or_default();
            code != "40003" && matches!(code.get(..2), Some("22" | "23" | "25" | "40" | "53" | "55"))
        }
        _ => false,
    };
    if refused { failed(error) } else { StoreError::Unknown(error.to_string()) }
}

/// SQLite's result codes: <https://www.sqlite.org/rescode.html>. The low byte is the primary code.
fn sqlite_failed(code: &str, detail: String) -> StoreError {
    /// A STRICT column refused a value: a sum left 64 bits and became a real number.
    const CONSTRAINT_DATATYPE: i64 = 3_091;
    /// Somebody else wrote since what this transaction has read.
    const BUSY_SNAPSHOT: i64 = 517;
    let code = code.parse::<i64>().unwrap_or(0);
    match code % 256 {
        _ if code == BUSY_SNAPSHOT => StoreError::Again(detail),
        _ if code == CONSTRAINT_DATATYPE || detail.contains("integer overflow") => StoreError::Overflow,
        // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL
        5..=10 | 13..=15 => StoreError::Unavailable(detail),
        19 => StoreError::Constraint(detail),
        _ => StoreError::Corrupt(detail),
    }
}

/// PostgreSQL's classes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn postgres_failed(code: &str, detail: String) -> StoreError {
    match (code, code.get(..2).unwrap_or_default()) {
        ("22003", _) => StoreError::Overflow,
        (_, "23") => StoreError::Constraint(detail),
        // Serialisation failure, deadlock, lock not available, the session was ended.
        ("40001" | "40P01" | "55P03" | "57P01" | "57P02", _) | (_, "08") => StoreError::Again(detail),
        // Authorisation, invalid transaction state (read-only), rollback, resources, locks, operator, system
        (_, "28" | "25" | "40" | "53" | "55" | "57" | "58") => StoreError::Unavailable(detail),
        _ => StoreError::Corrupt(detail),
    }
}
