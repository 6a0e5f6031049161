//! Notices at once what readings on a grid would see late: documents that change, groups that are made, and groups whose
//! last process ends. By inotify; where there is none, everything is seen at the next round.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::sandbox::Key;

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Documents have changed.
    Documents,
    /// Something about these sandboxes' groups.
    Groups(BTreeSet<Key>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Watched {
    Documents,
    Root,
    Group(Key),
}

#[derive(Debug, Default)]
struct Table {
    watched: BTreeMap<i32, Watched>,
    /// The number of the watch of each group's events.
    groups: BTreeMap<Key, (PathBuf, i32)>,
    /// Whose group a directory of the root is.
    names: BTreeMap<PathBuf, Key>,
}

/// Watches; cheap to clone.
#[derive(Clone, Debug)]
pub struct Watcher {
    fd: Arc<OwnedFd>,
    table: Arc<Mutex<Table>>,
    root: PathBuf,
}

impl Watcher {
    /// Watches the documents' directory and the groups' root, as far as they can be watched.
    pub fn new(documents: &Path, root: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        let number = inotify::add_watch(&fd, documents, flags)?;
        let mut table = Table::default();
        table.watched.insert(number, Watched::Documents);
        let watcher = Self { fd: Arc::new(fd), table: Arc::new(Mutex::new(table)), root: root.to_owned() };
        watcher.watch_root();
        Ok(watcher)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root may not be there yet.
    fn watch_root(&self) {
        let mut table = self.table();
        if table.watched.values().any(|watched| *watched == Watched::Root) {
            return;
        }
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        if let Ok(number) = inotify::add_watch(&self.fd, &self.root, flags) {
            table.watched.insert(number, Watched::Root);
        }
    }

    /// Watches the events of these groups, and no others. A group that is not there is watched for under the root.
    pub fn follow(&self, groups: &BTreeMap<Key, PathBuf>) {
        self.watch_root();
        let mut table = self.table();
        let old: Vec<Key> = table.groups.keys().cloned().collect();
        for key in old {
            let same = table.groups.get(&key).is_some_and(|(path, _)| groups.get(&key) == Some(path));
            if !same && let Some((_, number)) = table.groups.remove(&key) {
                table.watched.remove(&number);
                // It may be gone with its group.
                inotify::remove_watch(&self.fd, number).ok();
            }
        }
        table.names = groups.iter().filter_map(|(key, path)| Some((path.parent()?.to_owned(), key.clone()))).collect();
        for (key, path) in groups {
            if table.groups.contains_key(key) {
                continue;
            }
            if let Ok(number) = inotify::add_watch(&self.fd, path, WatchFlags::MODIFY) {
                table.groups.insert(key.clone(), (path.clone(), number));
                table.watched.insert(number, Watched::Group(key.clone()));
            }
        }
    }

    /// Waits (blocking) for something to happen; what is known already is answered together.
    pub fn next(&self) -> io::Result<Vec<Seen>> {
        loop {
            let seen = self.read()?;
            if !seen.is_empty() {
                return Ok(seen);
            }
        }
    }

    fn read(&self) -> io::Result<Vec<Seen>> {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut documents = false;
        let mut groups = BTreeSet::new();
        let mut first = true;
        // One wait; then what has come with it.
        while std::mem::take(&mut first) || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            };
            let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                documents = true;
                groups.extend(self.table().groups.keys().cloned());
                continue;
            }
            let mut table = self.table();
            let watched = table.watched.get(&event.wd()).cloned();
            if event.events().contains(ReadFlags::IGNORED) {
                table.watched.remove(&event.wd());
            }
            match watched {
                Some(Watched::Documents) => documents |= !name.starts_with('.'),
                Some(Watched::Root) => groups.extend(table.names.get(&self.root.join(name)).cloned()),
                Some(Watched::Group(key)) => {
                    if event.events().contains(ReadFlags::IGNORED) {
                        table.groups.remove(&key);
                    }
                    groups.insert(key);
                }
                None => {}
            }
        }
        let mut seen = Vec::new();
        if documents {
            seen.push(Seen::Documents);
        }
        if !groups.is_empty() {
            seen.push(Seen::Groups(groups));
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Seen, Watcher};
    use crate::agent::sandbox::Key;
    use crate::domain::id::{AccountId, SandboxId};

    #[test]
    fn documents_new_groups_and_ends_are_seen_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (documents, root) = (folder.path().join("d"), folder.path().join("r"));
        std::fs::create_dir_all(&documents).unwrap();
        std::fs::create_dir_all(&root).unwrap();
        let watcher = Watcher::new(&documents, &root).unwrap();
        std::fs::write(documents.join("a.json"), "{}").unwrap();
        assert_eq!(watcher.next().unwrap(), [Seen::Documents]);

        let key = Key { account: AccountId::parse("a").unwrap(), sandbox: SandboxId::parse("s").unwrap() };
        let events = root.join("vm").join("cgroup.events");
        let groups = BTreeMap::from([(key.clone(), events.clone())]);
        watcher.follow(&groups);
        std::fs::create_dir(root.join("vm")).unwrap();
        let of_it = [Seen::Groups(BTreeSet::from([key.clone()]))];
        assert_eq!(watcher.next().unwrap(), of_it);

        std::fs::write(&events, "populated 1\n").unwrap();
        watcher.follow(&groups);
        std::fs::write(&events, "populated 0\n").unwrap();
        assert_eq!(watcher.next().unwrap(), of_it);
        // Removed and made again.
        std::fs::remove_dir_all(root.join("vm")).unwrap();
        assert_eq!(watcher.next().unwrap(), of_it);
        assert!(watcher.table().groups.is_empty());
        std::fs::create_dir(root.join("vm")).unwrap();
        assert_eq!(watcher.next().unwrap(), of_it);
        watcher.follow(&BTreeMap::new());
        std::fs::remove_dir_all(root.join("vm")).unwrap();
        std::fs::write(documents.join("b.json"), "{}").unwrap();
        assert_eq!(watcher.next().unwrap(), [Seen::Documents]);
    }
}
