//! A package in memory, with structure or as any text: read, rendered with built-in functions, written and read again.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use loggia_function::{Call, Exit, FunctionRef, Knows, Outcome, Payload, RunError, Running, Runtime, Stderr};
use loggia_functions::find;
use loggia_krm::Package;
use loggia_krm::package::ReadOptions;
use loggia_render::{Options, Quiet, Renderer, Source};

use crate::made;

/// The functions of the catalog but those that run programs of a package, right here.
#[derive(Debug)]
struct Here;

impl Runtime for Here {
    fn name(&self) -> &'static str {
        "here"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        let known = function
            .image()
            .and_then(|image| find(image.written()))
            .is_some_and(|(function, _)| !function.guarded);
        if known { Knows::Yes } else { Knows::No }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            let found = call.function.image().and_then(|image| find(image.written()));
            let Some((_, version)) = found.filter(|(function, _)| !function.guarded) else {
                return Err(RunError::not_found());
            };
            let output = version.filter(&call.input.to_bytes());
            Ok(Outcome {
                output: Payload::Bytes(output.stdout.into()),
                stderr: Stderr::from(output.stderr),
                exit: Exit::Code(output.exit_code),
                remote: None,
            })
        })
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let files = if first % 4 == 0 { any(rest) } else { made::files(rest).unwrap_or_default() };
    let files: BTreeMap<String, Vec<u8>> = files.into_iter().collect();
    let _ = Package::from_files(&files, &ReadOptions { subpackages: true, ..ReadOptions::default() });
    let (options, source) = (Options::default(), Source::Files(files.clone()));
    let renderer = Renderer { options: &options, runtime: &Here };
    let Ok(rendered) = runtime().block_on(renderer.render(&source, &mut Quiet)) else { return };
    let Ok(changes) = rendered.changes() else { return };
    assert!(
        changes.writes.keys().all(|path| inside(path)),
        "a write outside of the package: {:?}",
        changes.writes.keys()
    );
    let mut files = files;
    if changes.apply_to_files(&mut files).is_ok() && rendered.succeeded() {
        let _ = runtime().block_on(renderer.render(&Source::Files(files), &mut Quiet));
    }
}

/// Files with any content: their names and texts, divided by zeros.
fn any(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let names = ["Kptfile", "a.yaml", "sub/Kptfile", "sub/a.yaml", ".krmignore", "setters.yaml"];
    names.iter().zip(parts).map(|(name, part)| ((*name).to_owned(), part.to_vec())).collect()
}

fn inside(path: &str) -> bool {
    !path.starts_with('/') && !path.split('/').any(|part| part == ".." || part.eq_ignore_ascii_case(".git"))
}

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts")
    })
}
