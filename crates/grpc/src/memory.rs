//! Giving memory back.

/// Allocations from this size on go straight back to the system when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 1 << 20;

/// Of the smaller ones so much may be kept for later: growing and shrinking with every call costs more.
#[cfg(target_env = "gnu")]
const SPARE: i32 = 8 << 20;

/// Has the allocator return large allocations at once, for a process that holds megabytes only while a
/// call lasts. Left alone, glibc learns from each large allocation to keep the next one, and a service
/// that once was busy stays large. To be called first thing in `main`.
pub fn give_back_promptly() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `mallopt` takes two numbers, and no other thread runs yet that could allocate meanwhile.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE);
    }
}
