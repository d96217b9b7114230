//! How a process that runs out of memory or stack ends, and what it says.
//!
//! Rust's runtime aborts in both cases. An allocator that remembers that it had nothing to give, and handlers for the
//! signals of an abort and of a fault, turn that into an exit code that a pool understands, or into a sentence.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use crate::workers::frame::Death;

/// How far from the stack pointer a fault is one of the stack: a guard page and a frame of some size.
const NEAR: usize = 1 << 20;

/// What an allocation costs beside its size.
const OVERHEAD: usize = 16;

/// Bytes that may be in use; 0 for no limit of our own.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are in use, as far as they were counted. Threads take turns in a worker, so plain loads and stores do: where
/// two race, a few bytes are lost, and the kernel's limit is behind this one.
static USED: AtomicIsize = AtomicIsize::new(0);

/// An allocation has failed.
static FAILED: AtomicBool = AtomicBool::new(false);

/// What to say instead of exiting with a code.
static SENTENCES: OnceLock<Sentences> = OnceLock::new();

/// The system's allocator, which remembers that it had nothing to give.
#[derive(Debug)]
pub struct Allocator;

/// What a command says when it ends this way, with the end of the line.
#[derive(Debug)]
pub struct Sentences {
    pub memory: String,
    pub stack: String,
}

#[allow(unsafe_code)]
// SAFETY: every method passes its arguments on to the system's allocator and returns what that returns.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size() + OVERHEAD) {
            return noted(std::ptr::null_mut());
        }
        // SAFETY: as promised by the caller.
        noted(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give_back(layout.size() + OVERHEAD);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size() + OVERHEAD) {
            return noted(std::ptr::null_mut());
        }
        // SAFETY: as promised by the caller.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) if !take(more) => return noted(std::ptr::null_mut()),
            Some(_) => {}
            None => give_back(layout.size() - size),
        }
        // SAFETY: as promised by the caller.
        noted(unsafe { System.realloc(block, layout, size) })
    }
}

/// Counts bytes that are about to be allocated, unless they are too many.
#[inline]
fn take(bytes: usize) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit == 0 {
        return true;
    }
    let used = USED.load(Ordering::Relaxed).saturating_add_unsigned(bytes);
    if used > limit.cast_signed() {
        return false;
    }
    USED.store(used, Ordering::Relaxed);
    true
}

#[inline]
fn give_back(bytes: usize) {
    if LIMIT.load(Ordering::Relaxed) != 0 {
        USED.store(USED.load(Ordering::Relaxed).saturating_sub_unsigned(bytes), Ordering::Relaxed);
    }
}

#[inline]
fn noted(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        nothing_left();
    }
    block
}

#[cold]
fn nothing_left() {
    FAILED.store(true, Ordering::Relaxed);
    // The runtime would write a line of its own before it aborts.
    if SENTENCES.get().is_some() {
        end(libc::SIGABRT, Death::Memory);
    }
}

/// Lets this process use so many bytes from now on, as its allocator counts them.
pub(crate) fn allow_memory(bytes: u64) {
    let most = usize::try_from(isize::MAX).unwrap_or(usize::MAX);
    LIMIT.store(usize::try_from(bytes).unwrap_or(most).clamp(1, most), Ordering::Relaxed);
}

/// Has this process exit with a code of [`Death`] where it would abort.
pub(crate) fn exit_with_reason() {
    install();
}

/// Has this process say why it ends, and exit with 1, where it would abort for want of memory or stack.
pub fn explain_yourself(sentences: Sentences) {
    if SENTENCES.set(sentences).is_ok() {
        install();
    }
}

#[allow(unsafe_code)]
fn install() {
    let handlers: [(libc::c_int, usize); 3] = [
        (libc::SIGABRT, on_abort as *const () as usize),
        (libc::SIGSEGV, on_fault as *const () as usize),
        (libc::SIGBUS, on_fault as *const () as usize),
    ];
    for (signal, handler) in handlers {
        // SAFETY: the handlers have the signature that SA_SIGINFO asks for, and only call what is allowed in one. They
        // run on the alternate stack that Rust's runtime gives to every thread, so a full stack is no obstacle.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_abort(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    end(signal, if FAILED.load(Ordering::Relaxed) { Death::Memory } else { Death::Abort });
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // A fault close to the stack pointer is one of the stack's guard page.
    let near = stack_pointer(context).is_some_and(|pointer| address(info).abs_diff(pointer) < NEAR);
    end(signal, if near { Death::Stack } else { Death::Fault });
}

#[allow(unsafe_code)]
fn address(info: *mut libc::siginfo_t) -> usize {
    // SAFETY: the kernel passes a valid `siginfo_t`, and the signals that this is asked for have an address.
    unsafe { (*info).si_addr() as usize }
}

#[allow(unsafe_code)]
fn stack_pointer(context: *mut libc::c_void) -> Option<usize> {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes a valid `ucontext_t` to a handler that was installed with SA_SIGINFO.
    #[cfg(target_arch = "x86_64")]
    let pointer = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    let pointer = unsafe { (*context).uc_mcontext.sp };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let pointer = {
        let _ = context;
        return None;
    };
    #[allow(clippy::unnecessary_fallible_conversions, reason = "the register's type differs by machine")]
    usize::try_from(pointer).ok()
}

/// Ends the process, from inside a signal handler.
#[allow(unsafe_code)]
fn end(signal: libc::c_int, death: Death) {
    let Some(sentences) = SENTENCES.get() else {
        // SAFETY: `_exit` may be called in a handler.
        unsafe { libc::_exit(death.code()) }
    };
    let sentence = match death {
        Death::Memory => &sentences.memory,
        Death::Stack => &sentences.stack,
        _ => {
            // SAFETY: the default action comes back, and the signal with it once the handler returns.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
            return;
        }
    };
    // SAFETY: both may be called in a handler, and the text lives as long as the process.
    unsafe {
        libc::write(2, sentence.as_ptr().cast(), sentence.len());
        libc::_exit(1)
    }
}
