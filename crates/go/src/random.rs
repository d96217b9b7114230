//! Identifiers that do not repeat.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other call of this process or another process gets, but for the chance of a collision among 64 bits.
///
/// The seed comes from the operating system's random source, once a process; a counter behind it makes each
/// number another one. It names things and spreads load. It is not a secret.
pub fn random_id() -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    static CALLS: AtomicU64 = AtomicU64::new(0);
    SEED.get_or_init(RandomState::new).hash_one(CALLS.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_calls_get_the_same_number() {
        let threads =
            (0..4).map(|_| std::thread::spawn(|| (0..1000).map(|_| random_id()).collect::<Vec<_>>()));
        let threads: Vec<_> = threads.collect();
        let numbers: HashSet<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(numbers.len(), 4000);
    }
}
