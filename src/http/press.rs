//! Files for people and programs: made on threads of their own, a few at once, so that requests never wait for a page
//! that is being laid out.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Failure;
use crate::ledger::command::CommandError;

/// Files made at once: the more, the more memory and processor time, which the gate needs first.
const FILES_MAX: usize = 2;
/// Long files being sent at once: each is kept on disk until its caller has it.
const DOWNLOADS_MAX: usize = 32;

/// Who waits for a place waits as long as its request may. Clones share the bounds.
#[derive(Clone, Debug)]
pub struct Press {
    files: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
}

impl Default for Press {
    /// Two files made at once, 32 long ones being sent.
    fn default() -> Self {
        Self { files: Arc::new(Semaphore::new(FILES_MAX)), downloads: Arc::new(Semaphore::new(DOWNLOADS_MAX)) }
    }
}

/// Does work that takes a while on a thread where it keeps nobody waiting.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::internal(&error))
}

impl Press {
    /// A place to make a file in.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.files).acquire_owned().await.map_err(|error| Failure::internal(&error))
    }

    /// A long file to be sent; unavailable when too many are.
    pub(super) fn download(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let free = Arc::clone(&self.downloads).try_acquire_owned();
        free.map_err(|_| CommandError::Unavailable("too many files are being sent".to_owned()).into())
    }

    /// Does the work once it is its turn. A caller that gives up does not stop it, and it keeps its place until it ends:
    /// so never more than the bound are under way.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let place = self.place().await?;
        blocking(move || {
            let done = work();
            drop(place);
            done
        })
        .await
    }
}
