//! What the host's supervisor says of a sandbox: a small JSON document, in a file or over the agent's socket.
//!
//! It is read as strictly as the server's bodies: a refusal names its field. Whose sandbox it is, which lease runs it and
//! since when, which group or process is its counter, and which files are its disk.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::domain::id::{AccountId, LeaseId, SandboxId};
use crate::domain::time::Timestamp;
use crate::domain::units::{MEBIBYTES_MAX, MebiBytes};
use crate::wire::reader::{Invalid, Object, Value, document};
use crate::wire::time::show_time;

/// Largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 65_536;
/// Most files of one sandbox.
pub const FILES_MAX: usize = 1_000;
/// Longest name of a group, in bytes: a file name's.
const GROUP_BYTES_MAX: usize = 255;
/// Longest path, in characters.
const PATH_CHARS_MAX: usize = 4_095;
/// Largest process number of Linux.
const PID_MAX: i64 = 4_194_304;

/// Which sandbox: ids of sandboxes are an account's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
}

/// The lease that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Its id.
    pub id: LeaseId,
    /// When it began to run on this host: the lease's start, or the moment at which it was moved here.
    pub starts_at: Timestamp,
    /// Memory reserved, if it is less than the lease's.
    pub memory: Option<MebiBytes>,
}

/// Where its counter is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A group under the configured root.
    Group(String),
    /// A group's directory.
    Directory(PathBuf),
    /// A process; its descendants belong to it.
    Process(u32),
}

/// A sandbox as its document says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Which one.
    pub key: Key,
    /// The lease that runs it; `None`: it rests, and only its disk is reported.
    pub lease: Option<LeaseTerms>,
    /// Where its counter is.
    pub place: Place,
    /// Its main process, to see its end by where the group does not tell (cgroup v1).
    pub pid: Option<u32>,
    /// Its disk: files and directories. Empty: nothing is reported of it.
    pub files: Vec<PathBuf>,
}

impl Sandbox {
    /// Reads a document; or says what is wrong with it, naming the field by a JSON pointer.
    pub fn read(body: &[u8]) -> Result<Self, Invalid> {
        if body.len() > DOCUMENT_BYTES_MAX {
            return Err(invalid("", format!("must have at most {DOCUMENT_BYTES_MAX} bytes")));
        }
        let root = document(body).map_err(|fault| invalid("", fault.detail))?;
        let object =
            root.object(["account", "sandbox", "lease", "starts_at", "memory_mib", "group", "cgroup", "pid", "files"])?;
        let key = Key {
            account: object.required("account")?.id(AccountId::parse)?,
            sandbox: object.required("sandbox")?.id(SandboxId::parse)?,
        };
        let lease = lease(&object)?;
        let pid = object.optional("pid").map(|pid| pid.integer(1, PID_MAX)).transpose()?;
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        let place = place(&object, pid, &key)?;
        let files = match object.optional("files") {
            Some(files) => files.items(FILES_MAX)?.map(|file| absolute(&file)).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Self { key, lease, place, pid, files })
    }

    /// The document that reads as this.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut json = json!({"account": self.key.account.as_str(), "sandbox": self.key.sandbox.as_str()});
        let mut set = |name: &str, value: Json| {
            if let Some(object) = json.as_object_mut() {
                object.insert(name.to_owned(), value);
            }
        };
        if let Some(lease) = &self.lease {
            set("lease", lease.id.as_str().into());
            set("starts_at", show_time(lease.starts_at).into());
            if let Some(memory) = lease.memory {
                set("memory_mib", memory.mib().into());
            }
        }
        match &self.place {
            Place::Group(name) => set("group", name.as_str().into()),
            Place::Directory(path) => set("cgroup", path.to_string_lossy().into()),
            Place::Process(_) => {}
        }
        if let Some(pid) = self.pid {
            set("pid", pid.into());
        }
        if !self.files.is_empty() {
            set("files", self.files.iter().map(|file| file.to_string_lossy().into_owned()).collect());
        }
        json
    }
}

fn invalid(pointer: &str, detail: impl Into<String>) -> Invalid {
    Invalid { pointer: pointer.to_owned(), detail: detail.into() }
}

fn lease<const N: usize>(object: &Object<'_, '_, N>) -> Result<Option<LeaseTerms>, Invalid> {
    let Some(id) = object.optional("lease") else {
        for name in ["starts_at", "memory_mib"] {
            if object.optional(name).is_some() {
                return Err(object.invalid(name, "needs a lease"));
            }
        }
        return Ok(None);
    };
    let id = id.id(LeaseId::parse)?;
    let starts_at = match object.optional("starts_at") {
        Some(at) => at.time()?,
        None => return Err(object.invalid("starts_at", "is required with a lease")),
    };
    let memory = object.optional("memory_mib").map(|mib| mib.integer(1, MEBIBYTES_MAX)).transpose()?;
    Ok(Some(LeaseTerms { id, starts_at, memory: memory.and_then(MebiBytes::new) }))
}

fn place<const N: usize>(object: &Object<'_, '_, N>, pid: Option<u32>, key: &Key) -> Result<Place, Invalid> {
    match (object.optional("group"), object.optional("cgroup"), pid) {
        (Some(_), Some(_), _) => Err(object.invalid("cgroup", "and group exclude each other")),
        (Some(name), None, _) => {
            let name = name.text(GROUP_BYTES_MAX)?;
            let plain =
                (1..=GROUP_BYTES_MAX).contains(&name.len()) && !name.contains('/') && name != "." && name != "..";
            if plain { Ok(Place::Group(name)) } else { Err(object.invalid("group", "must be the name of a directory")) }
        }
        (None, Some(path), _) => absolute(&path).map(Place::Directory),
        (None, None, Some(pid)) => Ok(Place::Process(pid)),
        (None, None, None) => Ok(Place::Group(key.sandbox.as_str().to_owned())),
    }
}

fn absolute(value: &Value<'_, '_>) -> Result<PathBuf, Invalid> {
    let text = value.text(PATH_CHARS_MAX)?;
    let path = Path::new(&text);
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(plain) {
        return Ok(path.to_owned());
    }
    Err(value.refused("must be an absolute path without .."))
}

/// Whether reading any bytes keeps its promises: a document that is read is written as one that reads the same. For fuzzing
/// and its corpus.
#[must_use]
pub fn keeps_its_promises(body: &[u8]) -> bool {
    match Sandbox::read(body) {
        Ok(sandbox) => Sandbox::read(sandbox.to_json().to_string().as_bytes()) == Ok(sandbox),
        Err(invalid) => !invalid.detail.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Sandbox};

    const GOOD: &str = r#""account":"acme","sandbox":"s-1""#;

    fn read(more: &str) -> Result<Sandbox, String> {
        Sandbox::read(format!("{{{GOOD}{more}}}").as_bytes()).map_err(|invalid| invalid.pointer)
    }

    #[test]
    fn what_a_supervisor_writes_is_read_and_written_again_the_same() {
        for more in [
            "",
            r#","lease":"l-1","starts_at":"2026-11-01T10:00:00Z""#,
            r#","lease":"l-1","starts_at":"2026-11-01T10:00:00+01:00","memory_mib":512,"group":"vm-7","pid":7"#,
            r#","cgroup":"/sys/fs/cgroup/firecracker/x","files":["/srv/a","/srv/b"]"#,
            r#","pid":4194304,"lease":null"#,
        ] {
            let sandbox = read(more).unwrap();
            assert_eq!(Sandbox::read(sandbox.to_json().to_string().as_bytes()).unwrap(), sandbox, "{more}");
        }
        assert_eq!(read("").unwrap().place, Place::Group("s-1".to_owned()), "its own id, as the jailer calls it");
        assert_eq!(read(r#","pid":7"#).unwrap().place, Place::Process(7));
        assert_eq!(read(r#","pid":7,"group":"g""#).unwrap().place, Place::Group("g".to_owned()));
    }

    #[test]
    fn a_refusal_names_its_field() {
        for (more, pointer) in [
            (r#","lease":"l-1""#, "/starts_at"),
            (r#","starts_at":"2026-11-01T10:00:00Z""#, "/starts_at"),
            (r#","memory_mib":1"#, "/memory_mib"),
            (r#","lease":"l 1","starts_at":"2026-11-01T10:00:00Z""#, "/lease"),
            (r#","lease":"l","starts_at":"2026-11-01T10:00:00""#, "/starts_at"),
            (r#","group":"a/b""#, "/group"),
            (r#","group":"..""#, "/group"),
            (r#","group":"""#, "/group"),
            (r#","group":"a","cgroup":"/b""#, "/cgroup"),
            (r#","cgroup":"b""#, "/cgroup"),
            (r#","files":[]"#, "/files"),
            (r#","files":["/a","/b/../c"]"#, "/files/1"),
            (r#","pid":0"#, "/pid"),
            (r#","pid":4194305"#, "/pid"),
            (r#","cpu":1"#, "/cpu"),
            (r#","sandbox":"t""#, "/sandbox"),
        ] {
            assert_eq!(read(more), Err(pointer.to_owned()), "{more}");
        }
        for bad in [&b"{"[..], b"", b"\xff", b"[]", &vec![b' '; 65_537]] {
            assert!(Sandbox::read(bad).is_err());
        }
    }
}
