//! `runtab migrate`: brings a database's tables up to date, for those who don't let `serve` do it at its start.

use std::io::Write;

use clap::Args;

use super::{Common, serve};

/// The flags of `runtab migrate`.
#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let settings = args.common.settings(None)?;
    serve::migrate(&settings).await?;
    writeln!(std::io::stdout(), "{} is up to date", settings.store.database)?;
    Ok(())
}
