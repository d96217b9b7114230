//! `no-op`: gives back what it is given.

use loggia_krm::ResourceList;

use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "no-op",
    purpose: "Give the resources back as they are",
    role: Role::Mutator,
    manual: include_str!("no_op.md"),
    guarded: false,
    versions: &[Version { tags: &["latest", "unstable"], framework: Framework::Sdk, run: Run::List(run) }],
};

#[expect(clippy::unnecessary_wraps, reason = "every function has this shape")]
fn run(_: &mut ResourceList) -> Result<(), Failure> {
    Ok(())
}
