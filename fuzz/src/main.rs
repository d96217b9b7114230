//! libFuzzer on the target that `LOGGIA_FUZZ` names; `fuzz/run` builds and starts it.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use loggia_fuzz::{TARGETS, Target, target};

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("LOGGIA_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("LOGGIA_FUZZ: unknown target `{name}`; expected one of {}", known.join(", "))
    })
}

fuzz_target!(|bytes: &[u8]| {
    (CHOSEN.get_or_init(chosen).run)(bytes);
});
