//! `no-op`: gives back what it is given.

use loggia_krm::ResourceList;

use crate::order::sort_items;
use crate::{Failure, Function, Role, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "no-op",
    purpose: "Give the resources back as they are",
    role: Role::Mutator,
    manual: include_str!("no_op.md"),
    guarded: false,
    versions: &[Version { tags: &["latest", "unstable"], run }],
};

#[expect(clippy::unnecessary_wraps, reason = "every function has this shape")]
fn run(list: &mut ResourceList) -> Result<(), Failure> {
    sort_items(list);
    Ok(())
}
