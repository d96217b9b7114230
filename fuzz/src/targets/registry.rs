//! What a registry answers: challenges, tokens, manifests, configs.

use loggia_registry::parsing;

const TYPES: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "text/plain; charset=utf-8",
];

pub(crate) fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 4 {
        0 => parsing::challenge(&String::from_utf8_lossy(rest)),
        1 => parsing::token(rest),
        2 => parsing::manifest(rest, TYPES[usize::from(first / 4) % TYPES.len()]),
        _ => parsing::config(rest),
    }
}
