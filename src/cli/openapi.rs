//! `runtab openapi`: prints the OpenAPI document that the server answers at `/openapi.json`.

use std::io::Write;

pub(super) fn run(out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "{}", super::serve::openapi_json())?;
    Ok(())
}
