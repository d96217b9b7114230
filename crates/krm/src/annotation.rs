//! The annotations that readers and orchestrators leave on resources.

/// The prefix of keys that tools use among themselves.
pub const INTERNAL_PREFIX: &str = "internal.config.kubernetes.io/";
/// The file a resource came from, by slash path within its package.
pub const PATH: &str = "internal.config.kubernetes.io/path";
/// The place of a resource among those of its file or stream.
pub const INDEX: &str = "internal.config.kubernetes.io/index";
/// Ties a function's output to its input.
pub const ID: &str = "internal.config.kubernetes.io/id";
/// How the document indents sequences: [`COMPACT`] or [`WIDE`].
pub const SEQUENCE_INDENT: &str = "internal.config.kubernetes.io/seqindent";
/// The absolute path of the package that owns a resource during a render.
pub const PACKAGE_PATH: &str = "internal.config.kubernetes.io/package-path";
/// Ties inputs to outputs while legacy and internal annotations are reconciled.
pub const MIGRATION_ID: &str = "internal.config.kubernetes.io/annotations-migration-resource-id";
/// Ties selected resources to what a function made of them.
pub const SELECTION_ID: &str = "internal.config.kubernetes.io/kpt-resource-id";

/// The older spelling of [`PATH`].
pub const LEGACY_PATH: &str = "config.kubernetes.io/path";
/// The older spelling of [`INDEX`].
pub const LEGACY_INDEX: &str = "config.kubernetes.io/index";
/// The older spelling of [`ID`].
pub const LEGACY_ID: &str = "config.k8s.io/id";

/// Marks a resource that is not meant for a cluster.
pub const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";

/// The annotations that have an older spelling, and that spelling.
pub const TWINS: [(&str, &str); 3] = [(PATH, LEGACY_PATH), (INDEX, LEGACY_INDEX), (ID, LEGACY_ID)];

/// [`SEQUENCE_INDENT`]: dashes flush with the key above.
pub const COMPACT: &str = "compact";
/// [`SEQUENCE_INDENT`]: dashes two columns further in.
pub const WIDE: &str = "wide";

/// Whether a key is bookkeeping: internal, or the older spelling of path, index or id.
#[must_use]
pub fn is_internal(key: &str) -> bool {
    key.starts_with(INTERNAL_PREFIX) || TWINS.iter().any(|(_, legacy)| *legacy == key)
}
