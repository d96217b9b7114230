//! Random numbers, where a name must not come twice.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A number that cannot be predicted and, for all practical purposes, does not repeat, not even between two
/// runs of a program. It is not for keys: the standard library seeds it for hash maps.
pub fn random_id() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
