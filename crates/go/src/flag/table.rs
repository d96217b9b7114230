//! Flags declared in one place.

use super::FlagSet;

/// Flags that [`flags!`](crate::flags) declared together.
pub trait Table {
    /// Adds each flag to `flags`; its value goes into its field.
    fn add_to<'a>(&'a mut self, flags: &mut FlagSet<'a>);
}

/// Declares structs whose fields are flags, each with its type, its default if that is not the type's own, and its
/// help line. Their `Default` is a command line without flags.
///
/// A flag is named as its field, with dashes. Types are those that a [`Target`](crate::flag::Target) can hold.
///
/// ```
/// use loggia_go::flag::{FlagSet, Syntax};
///
/// loggia_go::flags! {
///     /// How the server listens.
///     struct ServerFlags {
///         port: i64 = 9445, "The server port.";
///         client_ca: String, "The CA certificates of callers, PEM.";
///     }
/// }
///
/// let mut flags = ServerFlags::default();
/// FlagSet::new("server", Syntax::Gnu).table(&mut flags).parse(["--client-ca=ca.pem".into()])?;
/// // Taking the struct apart in full makes the compiler notice a flag that is never read.
/// let ServerFlags { port, client_ca } = flags;
/// assert_eq!((port, client_ca.as_str()), (9445, "ca.pem"));
/// # Ok::<(), loggia_go::flag::Error>(())
/// ```
#[macro_export]
macro_rules! flags {
    ($($(#[$meta:meta])* $vis:vis struct $table:ident {
        $($field:ident: $type:ty $(= $default:expr)?, $help:literal;)+
    })+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $table {
            $(#[doc = $help] $vis $field: $type,)+
        }

        impl ::std::default::Default for $table {
            fn default() -> Self {
                Self { $($field: $crate::flags!(@default $type $(= $default)?),)+ }
            }
        }

        impl $crate::flag::Table for $table {
            fn add_to<'a>(&'a mut self, flags: &mut $crate::flag::FlagSet<'a>) {
                let Self { $($field),+ } = self;
                $(flags.add($crate::flags!(@name $field), $crate::flag::Target::from($field), $help);)+
            }
        }
    )+};
    (@default $type:ty) => { <$type as ::std::default::Default>::default() };
    (@default $type:ty = $default:expr) => { <$type>::from($default) };
    (@name $field:ident) => {{
        const BYTES: [u8; stringify!($field).len()] = $crate::flag::table::dashed(stringify!($field));
        const NAME: &str = match ::std::str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => panic!("the name of a field is text"),
        };
        NAME
    }};
}

/// The bytes of `name` with a dash for each underscore. `LENGTH` is that of `name`.
#[doc(hidden)]
pub const fn dashed<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let (mut bytes, mut at) = ([0; LENGTH], 0);
    while at < LENGTH {
        let byte = name.as_bytes()[at];
        bytes[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    bytes
}
