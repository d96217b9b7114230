//! Tests that cannot run on this machine: a line that says so, or a failure where they are required.
//!
//! `LOGGIA_REQUIRE` is a comma separated list of [`KINDS`]; `docs/testing.md` says what each of them needs. The recipes
//! use `e2e/missing` for the same.

/// What a machine may lack.
pub const KINDS: [&str; 4] = ["registry", "oracle", "tools", "cluster"];

/// The test that calls this has no `kind` of thing to run against: prints `left out: WHAT`.
///
/// # Panics
///
/// If `LOGGIA_REQUIRE` lists that kind, or a word that is none of [`KINDS`].
pub fn missing(kind: &str, what: &str) {
    let required = std::env::var("LOGGIA_REQUIRE").unwrap_or_default();
    match judge(&required, kind, what) {
        Ok(line) => println!("{line}"),
        Err(text) => panic!("{text}"),
    }
}

/// Prints `left out: WHAT` for a test of which no kind is required anywhere: it needs what `make test` does not make.
pub fn left_out(what: &str) {
    println!("left out: {what}");
}

fn judge(required: &str, kind: &str, what: &str) -> Result<String, String> {
    assert!(KINDS.contains(&kind), "`{kind}` is not a kind of LOGGIA_REQUIRE");
    let words = || required.split(',').map(str::trim).filter(|word| !word.is_empty());
    if let Some(unknown) = words().find(|word| !KINDS.contains(word)) {
        return Err(format!("LOGGIA_REQUIRE: unknown word `{unknown}`; expected {}", KINDS.join(", ")));
    }
    if words().any(|word| word == kind) {
        return Err(format!("required by LOGGIA_REQUIRE={required}, but missing: {what}"));
    }
    Ok(format!("left out: {what}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{KINDS, judge};

    /// What the script of the recipes makes of the same question: its exit code and what it prints.
    fn script(required: &str, kind: &str, what: &str) -> (Option<i32>, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/missing");
        let output =
            Command::new(script).args([kind, what]).env("LOGGIA_REQUIRE", required).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(printed).unwrap().trim_end().to_owned())
    }

    #[test]
    fn a_kind_that_is_not_required_is_left_out_with_a_line() {
        for required in ["", "registry", "oracle, tools", "registry,oracle,tools"] {
            let expected = "left out: no cluster (make e2e)";
            let line = judge(required, "cluster", "no cluster (make e2e)");
            assert_eq!(line.as_deref(), Ok(expected), "{required:?}");
            assert_eq!(
                script(required, "cluster", "no cluster (make e2e)"),
                (Some(0), expected.to_owned()),
                "{required:?}"
            );
        }
    }

    #[test]
    fn a_kind_that_is_required_fails() {
        for kind in KINDS {
            let required = format!("{kind},tools");
            let expected = format!("required by LOGGIA_REQUIRE={required}, but missing: it");
            assert_eq!(judge(&required, kind, "it"), Err(expected.clone()));
            assert_eq!(script(&required, kind, "it"), (Some(1), expected));
        }
    }

    #[test]
    fn an_unknown_word_is_an_error_whatever_is_missing() {
        let expected = "LOGGIA_REQUIRE: unknown word `clusters`; expected registry, oracle, tools, cluster";
        assert_eq!(judge("clusters,registry", "oracle", "it"), Err(expected.to_owned()));
        assert_eq!(script("clusters,registry", "oracle", "it"), (Some(1), expected.to_owned()));
    }
}
