//! The watched directory: a JSON file for each sandbox of the host, read anew when it changes.
//!
//! Only names that end in `.json` and do not begin with a dot count, so a writer renames a file into place. A file that
//! was good and is broken now changes nothing: what it said last holds until it is good again or gone, so that a
//! half-written file ends no metering. A directory that can't be listed changes nothing either.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sandbox::{DOCUMENT_BYTES_MAX, Key, Sandbox};

/// What tells that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), bytes: meta.len(), modified_ns: (meta.mtime(), meta.mtime_nsec()) }
    }
}

/// A file as it was read.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    /// What it says, or said when it was good last.
    sandbox: Option<Sandbox>,
    /// What is wrong with it now.
    fault: Option<String>,
}

/// The sandboxes of this host.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
    sandboxes_max: usize,
    files: BTreeMap<String, Known>,
    /// What is wrong with the directory itself.
    fault: Option<String>,
    /// Files that are good but name a sandbox, lease or place that an earlier one has, or are beyond the bound.
    refused: BTreeMap<String, String>,
}

impl Registry {
    /// A registry of a directory, which is made if it is missing; nothing is read yet.
    pub fn open(directory: &Path, sandboxes_max: usize) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let directory = directory.to_owned();
        Ok(Self { directory, sandboxes_max, files: BTreeMap::new(), fault: None, refused: BTreeMap::new() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads what has changed since the last time, and answers all sandboxes as they are now.
    pub fn refresh(&mut self) -> BTreeMap<Key, Sandbox> {
        match self.list() {
            Ok(found) => {
                self.fault = None;
                self.files.retain(|name, _| found.contains_key(name));
                for (name, stamp) in found {
                    if self.files.get(&name).is_none_or(|known| known.stamp != stamp) {
                        self.load(name, stamp);
                    }
                }
            }
            Err(error) => self.fault = Some(format!("{}: {error}", self.directory.display())),
        }
        self.agreed()
    }

    /// What is wrong: with the directory, or with files, each as `NAME: what`.
    pub fn faults(&self) -> impl Iterator<Item = String> {
        let files = self.files.iter().filter_map(|(name, known)| Some((name, known.fault.as_ref()?)));
        let files = files.chain(&self.refused).map(|(name, fault)| format!("{name}: {fault}"));
        self.fault.iter().cloned().chain(files)
    }

    /// Writes a sandbox's file, durably, in place of the one that names it now; the next refresh reads it.
    pub fn put(&self, sandbox: &Sandbox) -> io::Result<()> {
        let name = self.file_of(&sandbox.key).unwrap_or_else(|| name_of(&sandbox.key));
        let body = serde_json::to_vec(&sandbox.to_json())?;
        write_durably(&self.directory, &name, &body)
    }

    /// Removes the file that names a sandbox; `false`: there is none.
    pub fn remove(&self, key: &Key) -> io::Result<bool> {
        let Some(name) = self.file_of(key) else { return Ok(false) };
        match std::fs::remove_file(self.directory.join(name)) {
            Ok(()) => File::open(&self.directory)?.sync_all().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn file_of(&self, key: &Key) -> Option<String> {
        let named = |known: &Known| known.sandbox.as_ref().is_some_and(|sandbox| sandbox.key == *key);
        let mut files = self.files.iter().filter(|(name, known)| named(known) && !self.refused.contains_key(*name));
        files.next().map(|(name, _)| name.clone())
    }

    fn list(&self) -> io::Result<BTreeMap<String, Stamp>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.strip_suffix(".json").is_none() || name.starts_with('.') {
                continue;
            }
            match std::fs::metadata(entry.path()) {
                Ok(meta) => drop(found.insert(name, Stamp::of(&meta))),
                // Gone between the listing and the look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn load(&mut self, name: String, stamp: Stamp) {
        let read = read_document(&self.directory.join(&name));
        let known = self.files.entry(name).or_insert(Known { stamp, sandbox: None, fault: None });
        known.stamp = stamp;
        match read {
            Ok(sandbox) => {
                known.sandbox = Some(sandbox);
                known.fault = None;
            }
            Err(fault) => known.fault = Some(fault),
        }
    }

    /// Sandboxes of the good files, in the order of their names; one that contradicts an earlier one is refused.
    fn agreed(&mut self) -> BTreeMap<Key, Sandbox> {
        self.refused.clear();
        let mut sandboxes: BTreeMap<Key, Sandbox> = BTreeMap::new();
        let mut taken = BTreeMap::new();
        for (name, sandbox) in self.files.iter().filter_map(|(name, known)| Some((name, known.sandbox.as_ref()?))) {
            let fault = if sandboxes.contains_key(&sandbox.key) {
                Some("another file names this sandbox".to_owned())
            } else if let Some(other) = taken.get(&sandbox.place) {
                Some(format!("its counter is that of {other}"))
            } else if sandboxes.len() >= self.sandboxes_max {
                Some(format!("there are more than {} sandboxes", self.sandboxes_max))
            } else {
                None
            };
            if let Some(fault) = fault {
                self.refused.insert(name.clone(), fault);
            } else {
                taken.insert(sandbox.place.clone(), sandbox.key.sandbox.clone());
                sandboxes.insert(sandbox.key.clone(), sandbox.clone());
            }
        }
        sandboxes
    }
}

/// `~` is in no id, so two sandboxes never share a file.
fn name_of(key: &Key) -> String {
    format!("{}~{}.json", key.account, key.sandbox)
}

fn read_document(path: &Path) -> Result<Sandbox, String> {
    let limit = u64::try_from(DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut body = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut body));
    read.map_err(|error| error.to_string())?;
    Sandbox::read(&body).map_err(|invalid| format!("{} {}", invalid.pointer, invalid.detail).trim_start().to_owned())
}

/// Writes a whole file under a name: after a crash there is the old one or the new one.
pub(super) fn write_durably(directory: &Path, name: &str, body: &[u8]) -> io::Result<()> {
    let draft = directory.join(format!(".{name}.new"));
    let mut file = File::create(&draft)?;
    file.write_all(body)?;
    file.sync_all()?;
    std::fs::rename(&draft, directory.join(name))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Registry;
    use crate::agent::sandbox::Sandbox;

    fn write(directory: &Path, name: &str, text: &str) {
        std::fs::write(directory.join(".draft"), text).unwrap();
        std::fs::rename(directory.join(".draft"), directory.join(name)).unwrap();
    }

    fn seen(registry: &mut Registry) -> Vec<String> {
        registry.refresh().values().map(|sandbox| format!("{} {:?}", sandbox.key.sandbox, sandbox.lease)).collect()
    }

    #[test]
    fn files_come_change_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(&folder.path().join("new"), 10).unwrap();
        let directory = registry.directory().to_owned();
        assert!(registry.refresh().is_empty());
        write(&directory, "a.json", r#"{"account":"acme","sandbox":"s"}"#);
        write(&directory, "note.txt", "not of interest");
        assert_eq!(seen(&mut registry), ["s None"]);
        write(&directory, "a.json", r#"{"account":"acme","sandbox":"t"}"#);
        assert_eq!(seen(&mut registry), ["t None"]);
        write(&directory, "a.json", r#"{"account":"acme","sand"#);
        assert_eq!(seen(&mut registry), ["t None"], "what it said last holds");
        assert!(registry.faults().next().unwrap().starts_with("a.json: EOF"));
        std::fs::remove_file(directory.join("a.json")).unwrap();
        assert!(registry.refresh().is_empty());
        assert_eq!(registry.faults().count(), 0);
    }

    #[test]
    fn a_directory_that_is_gone_ends_no_metering() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(&folder.path().join("d"), 10).unwrap();
        write(registry.directory(), "a.json", r#"{"account":"acme","sandbox":"s"}"#);
        assert_eq!(seen(&mut registry).len(), 1);
        std::fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
        assert_eq!(seen(&mut registry).len(), 1);
        assert!(registry.faults().next().unwrap().contains("No such file"));
    }

    #[test]
    fn what_contradicts_an_earlier_file_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path(), 2).unwrap();
        write(folder.path(), "a.json", r#"{"account":"acme","sandbox":"s","group":"g"}"#);
        write(folder.path(), "b.json", r#"{"account":"acme","sandbox":"s","group":"h"}"#);
        write(folder.path(), "c.json", r#"{"account":"acme","sandbox":"u","group":"g"}"#);
        write(folder.path(), "d.json", r#"{"account":"other","sandbox":"s","group":"i"}"#);
        write(folder.path(), "e.json", r#"{"account":"other","sandbox":"x","group":"j"}"#);
        assert_eq!(registry.refresh().len(), 2);
        let faults: Vec<String> = registry.faults().collect();
        assert_eq!(
            faults,
            [
                "b.json: another file names this sandbox",
                "c.json: its counter is that of s",
                "e.json: there are more than 2 sandboxes"
            ]
        );
    }

    #[test]
    fn what_the_api_writes_is_what_a_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path(), 10).unwrap();
        let sandbox = Sandbox::read(br#"{"account":"acme","sandbox":"s","pid":7}"#).unwrap();
        registry.put(&sandbox).unwrap();
        assert_eq!(registry.refresh().get(&sandbox.key), Some(&sandbox));
        let resting = Sandbox::read(br#"{"account":"acme","sandbox":"s"}"#).unwrap();
        registry.put(&resting).unwrap();
        assert_eq!(registry.refresh().get(&sandbox.key), Some(&resting));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(registry.remove(&sandbox.key).unwrap());
        assert!(registry.refresh().is_empty());
        assert!(!registry.remove(&sandbox.key).unwrap());
    }
}
