//! Landlock: which files a child may use, and that it reaches no process outside of its call.
//!
//! Rules can only allow, and allow whole trees. To hide something, the way to it is opened up: each folder on it is
//! replaced by what stands in it, beside the hidden. What appears there later stays out of reach until the rules are
//! made again, which happens when such a folder has changed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::Files;

/// The newest interface that the rules are written for; older kernels keep what they know of it.
const NEWEST: ABI = ABI::V9;

/// The most entries beside hidden paths. More mean that a hidden path is in an unfit place.
const MOST_RULES: usize = 4096;

/// Devices that programs expect and that give nothing away.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// How much of Landlock the kernel has: 0 for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(u32);

/// What may be used, worked out: paths and access to them.
#[derive(Debug)]
pub(crate) struct Rules {
    allowed: BTreeMap<PathBuf, Level>,
    /// The folders that were opened up, as they were then.
    opened: Vec<(PathBuf, Stamp)>,
    network: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Read,
    /// Reading and writing, without making or removing anything.
    Use,
    All,
}

type Stamp = Option<(u64, i64, i64)>;

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("the Landlock rules were refused")]
    Refused(#[source] RulesetError),
    #[error(
        "{} has too many entries beside what must be hidden in it; put secrets into a directory of their own",
        .0.display()
    )]
    TooMany(PathBuf),
    #[error("the Landlock rules cannot be shared")]
    NotShared(#[source] io::Error),
    #[error("the kernel did not enforce the Landlock rules")]
    NotEnforced,
}

// === impl Abi ===

impl Abi {
    /// Nothing is confined.
    pub const NONE: Self = Self(0);

    /// Asks the kernel.
    #[allow(unsafe_code)]
    pub fn here() -> Self {
        const VERSION: u32 = 1;
        let none = std::ptr::null::<u8>();
        // SAFETY: with this flag the call only returns a number.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
        Self(u32::try_from(version).unwrap_or(0))
    }

    /// What is missing for full confinement, in a few words.
    pub fn lacks(self) -> Option<&'static str> {
        match self.0 {
            0 => Some("Landlock, so files and other functions are in reach"),
            1..=3 => Some("a way to keep functions from TCP and from signals to other processes"),
            4..=5 => Some("a way to keep functions from signals to other processes"),
            _ => None,
        }
    }

    /// Whether signals stay within a domain, by which a domain can be killed as a whole.
    pub(crate) fn scopes_signals(self) -> bool {
        self.0 >= 6
    }

    pub(crate) fn exists(self) -> bool {
        self.0 > 0
    }
}

// === impl Rules ===

impl Rules {
    pub(crate) fn new(files: &Files, hidden: &[PathBuf], network: bool) -> Result<Self, RulesError> {
        let mut rules = Self { allowed: BTreeMap::new(), opened: Vec::new(), network };
        let mut hidden: Vec<_> = hidden.iter().flat_map(|path| names_of(path)).collect();
        let writable = match files {
            Files::AsTheyAre => {
                rules.allow(Path::new("/"), Level::All, &hidden)?;
                return Ok(rules);
            }
            Files::ReadOnly { writable, .. } => writable,
        };
        // Root may read disks.
        if rustix::process::geteuid().is_root() {
            hidden.push("/dev".into());
        }
        rules.allow(Path::new("/"), Level::Read, &hidden)?;
        for device in DEVICES {
            rules.grant(Path::new(device), Level::Use)?;
        }
        for path in writable {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            rules.allow(&path, Level::All, &hidden)?;
        }
        Ok(rules)
    }

    /// Whether a folder that was opened up has changed since.
    pub(crate) fn outdated(&self) -> bool {
        self.opened.iter().any(|(folder, stamp)| stamp_of(folder) != *stamp)
    }

    /// The rules as the kernel takes them, with a folder that is the child's own.
    pub(crate) fn compile(&self, own: Option<&Path>) -> Result<RulesetCreated, RulesError> {
        let mut ruleset = Ruleset::default().scope(Scope::from_all(NEWEST)).map_err(RulesError::Refused)?;
        ruleset = ruleset.handle_access(AccessFs::from_all(NEWEST)).map_err(RulesError::Refused)?;
        if !self.network {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(RulesError::Refused)?;
        }
        let mut created = ruleset.create().map_err(RulesError::Refused)?;
        let own = own.map(|path| (path, Level::All));
        let allowed = self.allowed.iter().map(|(path, level)| (path.as_path(), *level)).chain(own);
        for (path, level) in allowed {
            // What is gone need not be allowed.
            let Ok(handle) = PathFd::new(path) else { continue };
            let access = level.access(path.is_dir());
            created = created.add_rule(PathBeneath::new(handle, access)).map_err(RulesError::Refused)?;
        }
        Ok(created)
    }

    /// Allows a tree without what is hidden in it.
    fn allow(&mut self, path: &Path, level: Level, hidden: &[PathBuf]) -> Result<(), RulesError> {
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Ok(());
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
            return self.grant(path, level);
        }
        self.opened.push((path.to_owned(), stamp_of(path)));
        let entries: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().collect();
        if entries.len() > MOST_RULES {
            return Err(RulesError::TooMany(path.to_owned()));
        }
        for entry in entries {
            // A link would allow what it leads to, which has its own place in the tree.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.allow(&entry.path(), level, hidden)?;
            }
        }
        Ok(())
    }

    fn grant(&mut self, path: &Path, level: Level) -> Result<(), RulesError> {
        let granted = self.allowed.entry(path.to_owned()).or_insert(level);
        *granted = level.max(*granted);
        match self.allowed.len() > MOST_RULES {
            true => Err(RulesError::TooMany(path.parent().unwrap_or(path).to_owned())),
            false => Ok(()),
        }
    }
}

/// Binds this thread, and by that all that it starts, in a domain of its own.
pub(crate) fn restrict_this_thread(rules: &RulesetCreated) -> Result<(), RulesError> {
    let rules = rules.try_clone().map_err(RulesError::NotShared)?;
    let status = rules.restrict_self().map_err(RulesError::Refused)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(RulesError::NotEnforced),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

// === impl Level ===

impl Level {
    fn access(self, folder: bool) -> BitFlags<AccessFs> {
        let all = match folder {
            true => AccessFs::from_all(NEWEST),
            false => AccessFs::from_file(NEWEST),
        };
        match self {
            Self::Read => AccessFs::from_read(NEWEST) & all,
            Self::Use => (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate) & all,
            Self::All => all,
        }
    }
}

/// Every path under which a secret can be found: as it was named, where links lead, and the volume of a mounted Secret
/// as a whole, in which the file is a link to a link.
fn names_of(secret: &Path) -> Vec<PathBuf> {
    let secret = std::path::absolute(secret).unwrap_or_else(|_| secret.to_owned());
    let mut names = vec![resolved_folder(&secret)];
    if let Ok(real) = fs::canonicalize(&secret) {
        names.push(real);
    }
    let volume = secret.parent().filter(|folder| folder.join("..data").exists());
    names.extend(volume.and_then(|folder| fs::canonicalize(folder).ok()));
    names
}

/// The path with links resolved up to the last name that exists, which may be a link itself.
fn resolved_folder(path: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(name),
        Err(_) => resolved_folder(folder).join(name),
    }
}

fn stamp_of(folder: &Path) -> Stamp {
    fs::metadata(folder).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec()))
}
