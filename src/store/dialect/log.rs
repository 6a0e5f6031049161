//! SQLite: the log of its file, and how much of it is on disk.
//!
//! With `synchronous=FULL` a commit waits for the disk while it holds the one place of a writer, and that wait is most of
//! what a batch takes. So the writer commits with `NORMAL`, which leaves the log to the system, and the log is synced here:
//! after the commit and before anybody is answered, while the next batch is under way. The next one sees what the one before
//! it did, and is answered after it. A loss of power takes the end of the log, from some commit on ([SQLite, WAL]: a
//! commit counts if its frames and all before them are whole), so it never takes one without those that followed it, and
//! none that anybody was told of. SQLite itself syncs the log before it writes it back into the file, and when it begins
//! it anew.
//!
//! Where a sync fails, nothing is known any more of what is on disk ([fsyncgate]): all that follows is refused until the
//! engine was started again, and nothing more is written back of a log that may be read otherwise than it was written. The
//! system tells of a failure each file that was open before, once: so the log stays open here.
//!
//! [SQLite, WAL]: https://www.sqlite.org/fileformat2.html#walformat
//! [fsyncgate]: https://wiki.postgresql.org/wiki/Fsync_Errors

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::super::error::StoreError;

/// A log, and how much of it is on disk. Commits are numbered as they begin; there is one at a time.
#[derive(Debug)]
pub(in super::super) struct Log {
    /// The last commit that has begun.
    begun: AtomicU64,
    /// Whether one was given up before it ended: it may be done at any moment until the next batch has begun.
    given_up: AtomicBool,
    /// The last one that has ended, and is to be kept.
    ended: watch::Sender<u64>,
    kept: watch::Sender<Kept>,
}

/// What is on disk.
#[derive(Clone, Debug)]
enum Kept {
    /// This commit, and all before it.
    Until(u64),
    /// Nobody knows.
    Lost,
}

impl Kept {
    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }

    fn has(&self, number: u64) -> bool {
        matches!(self, Self::Until(kept) if *kept >= number)
    }
}

/// A commit that is under way; dropped when it has ended, well or not.
pub(in super::super) struct Commit<'a> {
    log: &'a Log,
    number: u64,
    has_ended: bool,
}

impl Commit<'_> {
    /// It has ended. One that is dropped otherwise was given up.
    pub(in super::super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.log.given_up.store(true, Ordering::SeqCst);
        }
        self.log.ended.send_replace(self.number);
    }
}

impl Log {
    /// The log of a database's file, which is open already. SQLite goes by the file that a link names in the end.
    pub(super) fn of(database: &Path) -> io::Result<Arc<Self>> {
        let mut path = std::fs::canonicalize(database)?.into_os_string();
        path.push("-wal");
        let file = Mutex::new(Open::new(path.into())?);
        Ok(Self::synced_by(move || file.lock().unwrap_or_else(PoisonError::into_inner).sync()))
    }

    fn synced_by(sync: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Arc<Self> {
        let (ended, ends) = watch::channel(0);
        let (kept, _) = watch::channel(Kept::Until(0));
        tokio::spawn(keep_up(ends, kept.clone(), Arc::new(sync)));
        Arc::new(Self { begun: AtomicU64::new(0), given_up: AtomicBool::new(false), ended, kept })
    }

    /// Nobody knows any more what is on disk.
    pub(super) fn lose(&self) {
        self.kept.send_replace(Kept::Lost);
    }

    /// Begins a commit.
    pub(in super::super) fn commit(&self) -> Commit<'_> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        Commit { log: self, number, has_ended: false }
    }

    /// Tells that a batch has begun: whatever was committed before it is done now, and is synced once more where that was
    /// not known.
    pub(in super::super) fn begin(&self) {
        if self.given_up.swap(false, Ordering::SeqCst) {
            self.commit().end();
        }
    }

    /// Waits until all that has begun to be committed by now is on disk. [`StoreError::Unavailable`] where that can't be
    /// known any more.
    pub(in super::super) fn keep(&self) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        if self.given_up.load(Ordering::SeqCst) {
            // It may have been seen, and the sync that it asked for may have come before it.
            self.commit().end();
        }
        let number = self.begun.load(Ordering::SeqCst);
        let mut kept = self.kept.subscribe();
        async move {
            // It ends where it is known, or where nobody syncs any more: then it is as it was last told.
            let known = kept.wait_for(|kept| kept.is_lost() || kept.has(number)).await;
            if known.is_ok_and(|kept| kept.has(number)) { Ok(()) } else { Err(lost()) }
        }
    }

    /// Tells of commits that have ended, as long as there is this log.
    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// [`StoreError::Unavailable`] where a sync has failed.
    pub(in super::super) fn is_well(&self) -> Result<(), StoreError> {
        if self.kept.borrow().is_lost() { Err(lost()) } else { Ok(()) }
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the disk did not take what was written: see to it, then start runtab again".to_owned())
}

/// Syncs as long as commits end. One sync keeps all that have ended before it begins.
async fn keep_up<S>(mut ends: watch::Receiver<u64>, keeps: watch::Sender<Kept>, sync: Arc<S>)
where
    S: Fn() -> io::Result<()> + Send + Sync + 'static,
{
    while ends.changed().await.is_ok() {
        let number = *ends.borrow_and_update();
        let sync = Arc::clone(&sync);
        let synced = tokio::task::spawn_blocking(move || sync()).await.map_err(io::Error::other).flatten();
        if let Err(error) = synced {
            tracing::error!(%error, "the log of the database could not be synced: nothing more is taken, start runtab again");
            keeps.send_replace(Kept::Lost);
            return;
        }
        // Somebody else may have found out that it is lost.
        keeps.send_if_modified(|kept| {
            let is_well = !kept.is_lost();
            if is_well {
                *kept = Kept::Until(number);
            }
            is_well
        });
    }
}

/// A log that is open.
struct Open {
    path: PathBuf,
    file: File,
}

impl Open {
    fn new(path: PathBuf) -> io::Result<Self> {
        Ok(Self { file: File::open(&path)?, path })
    }

    /// SQLite takes a log away only when nobody has the database open any more; another is synced as well then.
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let (named, open) = (std::fs::metadata(&self.path)?, self.file.metadata()?);
        if (named.dev(), named.ino()) != (open.dev(), open.ino()) {
            self.file = File::open(&self.path)?;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::fs::MetadataExt as _;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Context, Waker};

    use super::{Log, Open};

    fn waits(future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// A log whose syncs wait to be told how they end, and tell when they begin.
    fn by_hand() -> (std::sync::Arc<Log>, Sender<io::Result<()>>, tokio::sync::mpsc::UnboundedReceiver<()>) {
        let (ends, end) = channel();
        let (begins, begun) = tokio::sync::mpsc::unbounded_channel();
        let end = Mutex::new(end);
        let log = Log::synced_by(move || {
            begins.send(()).unwrap();
            end.lock().unwrap().recv().unwrap_or(Ok(()))
        });
        (log, ends, begun)
    }

    #[tokio::test]
    async fn what_is_committed_is_kept_by_a_sync_that_begins_afterwards() {
        let (log, ends, mut begun) = by_hand();
        log.keep().await.unwrap();
        log.commit().end();
        begun.recv().await.unwrap();
        // The sync of the first is under way: it says nothing of the second, nor of one that has only begun.
        let first = log.keep();
        log.commit().end();
        let (second, third) = (log.keep(), log.commit());
        let (third_too, mut unkept) = (log.keep(), Box::pin(log.keep()));
        ends.send(Ok(())).unwrap();
        first.await.unwrap();
        begun.recv().await.unwrap();
        assert!(waits(unkept.as_mut()));
        ends.send(Ok(())).unwrap();
        second.await.unwrap();
        assert!(waits(unkept.as_mut()));
        third.end();
        begun.recv().await.unwrap();
        ends.send(Ok(())).unwrap();
        third_too.await.unwrap();
        unkept.await.unwrap();
        log.is_well().unwrap();
    }

    #[tokio::test]
    async fn after_a_sync_that_failed_nothing_is_kept() {
        let (log, ends, _begun) = by_hand();
        drop(log.commit());
        ends.send(Err(io::Error::other("no room"))).unwrap();
        log.keep().await.unwrap_err();
        log.is_well().unwrap_err();
        drop(log.commit());
        ends.send(Ok(())).ok();
        log.keep().await.unwrap_err();
    }

    #[test]
    fn a_log_is_the_one_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let (log, other) = (directory.path().join("a-wal"), directory.path().join("other"));
        assert!(Open::new(log.clone()).is_err());
        std::fs::write(&log, "x").unwrap();
        std::fs::write(&other, "y").unwrap();
        let mut open = Open::new(log.clone()).unwrap();
        open.sync().unwrap();
        std::fs::rename(&other, &log).unwrap();
        open.sync().unwrap();
        assert_eq!(open.file.metadata().unwrap().ino(), std::fs::metadata(&log).unwrap().ino());
        std::fs::remove_file(&log).unwrap();
        open.sync().unwrap_err();
    }

    #[tokio::test]
    async fn a_link_leads_to_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let (database, link) = (directory.path().join("a"), directory.path().join("link"));
        std::fs::write(&database, "x").unwrap();
        std::os::unix::fs::symlink(&database, &link).unwrap();
        // SQLite's is beside the file, not beside the link.
        assert!(Log::of(&link).is_err());
        std::fs::write(directory.path().join("a-wal"), "x").unwrap();
        let log = Log::of(&link).unwrap();
        drop(log.commit());
        log.keep().await.unwrap();
    }

    #[tokio::test]
    async fn what_was_given_up_is_synced_once_more() {
        let (log, ends, mut begun) = by_hand();
        drop(log.commit());
        begun.recv().await.unwrap();
        ends.send(Ok(())).unwrap();
        // Whoever sees it waits for a sync that begins now; and so does the batch that begins behind it, once.
        for times in 0..2 {
            if times == 1 {
                log.begin();
            }
            let mut seen = Box::pin(log.keep());
            assert!(waits(seen.as_mut()));
            begun.recv().await.unwrap();
            ends.send(Ok(())).unwrap();
            seen.await.unwrap();
        }
        log.begin();
        log.keep().await.unwrap();
        assert!(begun.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_is_lost_stays_lost() {
        let (log, ends, mut begun) = by_hand();
        drop(log.commit());
        begun.recv().await.unwrap();
        log.lose();
        ends.send(Ok(())).unwrap();
        log.keep().await.unwrap_err();
        drop(log.commit());
        begun.recv().await.unwrap();
        log.is_well().unwrap_err();
    }
}
