//! What the originals are built on: how a program reads its list and writes it back.

use loggia_krm::annotation::INDEX;
use loggia_krm::{Resource, ResourceList, StreamOptions};
use loggia_yaml::{EmitOptions, Emitter, Node};

use crate::failure::Failure;
use crate::kyaml::migration::{self, Spellings};
use crate::sdk;

/// What a function's program is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// The functions SDK: it takes one `ResourceList`, sorts the items, and leaves out what is empty.
    Sdk,
    /// kyaml's function framework: it takes any stream, keeps the order, and touches all annotations.
    Kyaml,
    /// kyaml's function framework up to version 0.12, which leaves annotations alone.
    OldKyaml,
    /// [`Framework::Kyaml`] in a program that prints an error a second time.
    KyamlTwice,
    /// [`Framework::OldKyaml`] in a program that prints an error a second time.
    OldKyamlTwice,
    /// The TypeScript SDK: it keeps the order and says nothing on standard error.
    TypeScript,
}

impl Framework {
    /// Reads what a program of this kind finds on standard input.
    pub(crate) fn read(self, stdin: &[u8]) -> Result<ResourceList, Failure> {
        match self {
            Self::Sdk => sdk::list::read(stdin).map_err(Failure::sdk),
            _ => ResourceList::parse(stdin, StreamOptions::default())
                .map_err(|error| self.failure(&format!("failed to read ResourceList input: {error}"))),
        }
    }

    fn failure(self, cause: &str) -> Failure {
        match self {
            Self::Sdk => Failure::sdk(cause),
            Self::Kyaml | Self::OldKyaml | Self::TypeScript => Failure::kyaml(cause),
            Self::KyamlTwice | Self::OldKyamlTwice => Failure::kyaml_twice(cause),
        }
    }

    /// Records which spellings of readers' annotations the list uses, before the function runs.
    pub(crate) fn read_spellings(self, list: &mut ResourceList) -> Result<Option<Spellings>, Failure> {
        if self != Self::KyamlTwice {
            return Ok(None);
        }
        migration::prepare(list).map(Some).map_err(|cause| self.failure(&cause))
    }

    /// Spells readers' annotations as they were.
    pub(crate) fn restore_spellings(
        self,
        list: &mut ResourceList,
        spellings: Option<Spellings>,
    ) -> Result<(), Failure> {
        let Some(spellings) = spellings else { return Ok(()) };
        migration::reconcile(list, spellings).map_err(|cause| self.failure(&cause))
    }

    /// Does to the items what programs of this kind do first.
    pub(crate) fn prepare(self, list: &mut ResourceList) {
        if matches!(self, Self::Kyaml | Self::KyamlTwice) {
            list.items.iter_mut().for_each(have_annotations);
        }
    }

    /// Does to the items what programs of this kind do last.
    pub(crate) fn finish(self, list: &mut ResourceList) {
        match self {
            Self::Sdk => sdk::list::sort_items(list),
            // Metadata that is not a mapping stays; the originals do not get this far with it.
            Self::Kyaml | Self::OldKyaml | Self::KyamlTwice | Self::OldKyamlTwice => {
                list.items.iter_mut().for_each(|item| drop(item.drop_empty_metadata()));
            }
            Self::TypeScript => {}
        }
    }

    /// Writes what a program of this kind leaves on standard output; nothing if that is longer than `limit`.
    pub(crate) fn write(self, list: &ResourceList, limit: usize) -> Option<String> {
        match self {
            Self::Sdk => sdk::list::write(list, limit),
            Self::KyamlTwice | Self::OldKyamlTwice if list.wrapping.is_none() => {
                // Documents keep the annotations of the reader, which once had one spelling.
                let mut items = list.items.clone();
                if self == Self::OldKyamlTwice {
                    items.iter_mut().for_each(|item| item.remove_annotation(INDEX));
                }
                let mut emitter = Emitter::with_limit(EmitOptions::default(), limit);
                items.iter().for_each(|item| emitter.document(item.document()));
                emitter.finish_within()
            }
            _ => list.emit_within(limit),
        }
    }
}

/// Annotations that are not a mapping become one, since the framework adds an annotation of its own.
fn have_annotations(item: &mut Resource) {
    const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];
    let odd = item.node().at(&ANNOTATIONS).is_some_and(|annotations| !annotations.is_mapping());
    if odd && let Some(annotations) = item.node_mut().at_mut(&ANNOTATIONS) {
        *annotations = Node::mapping();
    }
}
