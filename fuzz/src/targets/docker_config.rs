//! Docker's configuration file: whatever is in it, looking up an image gives an answer.

use loggia_registry::parsing;

pub(crate) fn run(bytes: &[u8]) {
    for image in ["ghcr.io/a/b:v1", "docker.io/library/nginx", "localhost:5000/x@sha256:00"] {
        let _ = parsing::docker_config(bytes, image);
    }
}
