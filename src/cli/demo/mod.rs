//! `runtab demo`.
use clap::Args;
/// x
pub mod loads {
    use clap::Args;
    /// x
    #[derive(Clone, Debug, Args)]
    pub struct LoadArgs {}
    /// x
    pub fn be_a_load(_: &LoadArgs) -> anyhow::Result<()> {
        Ok(())
    }
}
/// Demo
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {}
#[expect(clippy::unused_async, reason = "x")]
pub(super) async fn run(_: DemoArgs) -> anyhow::Result<()> {
    Ok(())
}
