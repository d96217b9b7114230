//! Packages that try to get out: to read and write other files, to write to the terminal, to take all memory.
//!
//! Each is rendered by the real program, and what it must not touch is looked at afterwards.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use support::{CM, Package, Ran, loggia, run};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";

/// A Kptfile whose only mutator is a program of Starlark.
fn starlark(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("        {line}\n")).collect();
    format!("{KPTFILE}pipeline:\n  mutators:\n  - image: starlark\n    configMap:\n      source: |\n{source}")
}

/// A program that adds a ConfigMap at a path.
fn planting(path: &str, package: &str) -> String {
    let owner = if package.is_empty() {
        String::new()
    } else {
        format!(", 'internal.config.kubernetes.io/package-path': {package:?}")
    };
    format!(
        "ctx.resource_list['items'].append({{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {{'name': 'evil', \
         'annotations': {{'internal.config.kubernetes.io/path': {path:?}{owner}}}}}, 'data': {{'x': '$(shell touch /tmp/x)'}}}})"
    )
}

fn render(package: &Package, arguments: &[&str]) -> Ran {
    let path = package.path.display().to_string();
    let mut all = vec!["fn", "render", path.as_str()];
    all.extend(arguments);
    let begin = Instant::now();
    let ran = loggia(&all, package.path.parent().unwrap(), "");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    ran
}

fn assert_refused(ran: &Ran, reason: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains(reason), "{reason}\n{}", ran.stderr);
}

#[test]
fn a_function_writes_only_where_resources_are_read() {
    for (path, reason) in [
        ("Makefile", "`Makefile` cannot be written: it is not a name that resources are read from"),
        ("run.sh", "`run.sh` cannot be written"),
        (".envrc", "`.envrc` cannot be written"),
        (".git/hooks/pre-commit", "nothing is written into a `.git` folder"),
        (".git/x.yaml", "nothing is written into a `.git` folder"),
        ("sub/.GIT/x.yaml", "nothing is written into a `.git` folder"),
        (".github/workflows/x.yaml", "would be a new hidden file or in a hidden folder"),
        (".pre-commit-config.yaml", "would be a new hidden file"),
        ("ci/deploy.yaml", "`ci/deploy.yaml` cannot be replaced: it is not among the files"),
        ("..", "outside of package"),
        ("/../x.yaml", "outside of package"),
        ("../x.yaml", "outside of package"),
    ] {
        let package = Package::new(&[
            ("Kptfile", &starlark(&planting(path, ""))),
            ("cm.yaml", CM),
            ("Makefile", "all:\n"),
            ("run.sh", "#!/bin/sh\n"),
            (".krmignore", "ci\n"),
            ("ci/deploy.yaml", "steps: []\n"),
            (".git/hooks/pre-commit", "#!/bin/sh\n"),
        ]);
        fs::set_permissions(package.path.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let ran = render(&package, &[]);
        assert_refused(&ran, reason);
        assert!(ran.stderr.contains("starlark"), "the function is named: {}", ran.stderr);
        let kept = ["Makefile", "run.sh", "ci/deploy.yaml", ".git/hooks/pre-commit"];
        let texts = kept.map(|file| package.read(file));
        assert_eq!(texts, ["all:\n", "#!/bin/sh\n", "steps: []\n", "#!/bin/sh\n"], "{path}");
        assert!(!package.has(".github") && !package.has(".envrc") && !package.has(".git/x.yaml"), "{path}");
        assert!(!package.path.parent().unwrap().join("x.yaml").exists());
    }
}

#[test]
fn a_flag_allows_any_file_but_those_of_git() {
    let package = Package::new(&[
        ("Kptfile", &starlark(&planting("run.sh", ""))),
        ("cm.yaml", CM),
        ("run.sh", "#!/bin/sh\n"),
    ]);
    fs::set_permissions(package.path.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(render(&package, &["--allow-any-path"]).code, 0);
    assert!(package.read("run.sh").contains("kind: ConfigMap"));
    let mode = fs::metadata(package.path.join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "what a function wrote is no program");
    let package = Package::new(&[("Kptfile", &starlark(&planting(".git/x.yaml", ""))), ("cm.yaml", CM)]);
    assert_refused(&render(&package, &["--allow-any-path"]), "nothing is written into a `.git` folder");
}

#[test]
fn eval_sink_and_new_folders_keep_to_the_same_rules() {
    let package = Package::new(&[("cm.yaml", CM), ("Makefile", "all:\n")]);
    let script = package.program(
        "plant",
        "sed 's|^items:|items:\\n- apiVersion: v1\\n  kind: ConfigMap\\n  metadata:\\n    name: evil\\n    annotations:\\n      internal.config.kubernetes.io/path: Makefile|'",
    );
    let folder = package.path.parent().unwrap();
    let ran = loggia(&["fn", "eval", "app", "--exec", &script], folder, "");
    assert_refused(
        &ran,
        "plant\": `Makefile` cannot be written: it is not a name that resources are read from",
    );
    assert_eq!(package.read("Makefile"), "all:\n");
    let ran = loggia(&["fn", "eval", "app", "--exec", &script, "-o", "out"], folder, "");
    assert_refused(&ran, "`Makefile` cannot be written");
    let stream = |path: &str| {
        CM.replace(
            "  name: cm\n",
            &format!("  name: cm\n  annotations:\n    config.kubernetes.io/path: {path}\n"),
        )
    };
    for path in ["Makefile", ".git/config.yaml", "a/GIT~1/x.yaml"] {
        let ran = loggia(&["fn", "sink", "new"], folder, &stream(path));
        assert_refused(&ran, "cannot be written");
        assert!(!folder.join("new").join(path).exists());
    }
    let ran = loggia(&["fn", "sink", "new"], folder, &stream(".hidden/x.yaml"));
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_subpackage_cannot_plant_files_in_the_package_around_it() {
    let root = Package::new(&[]).path.display().to_string();
    for (path, owner) in
        [("x.yaml", "PKG"), ("x.yaml", "PKG/other"), ("x.yaml", "PKG/sub/../other"), ("/../x.yaml", "")]
    {
        let package = Package::new(&[("Kptfile", KPTFILE), ("other/Kptfile", KPTFILE)]);
        let owner = owner.replace("PKG", &package.path.display().to_string());
        package.write("sub/Kptfile", &starlark(&planting(path, &owner)));
        assert_refused(&render(&package, &[]), "function must not modify resources outside of package");
        assert!(!package.has("x.yaml") && !package.has("other/x.yaml"), "{owner}");
    }
    let package = Package::new(&[("Kptfile", KPTFILE), ("sub/inner/Kptfile", KPTFILE)]);
    let inner = package.path.join("sub/inner").display().to_string();
    package.write("sub/Kptfile", &starlark(&planting("x.yaml", &inner)));
    assert_eq!(render(&package, &[]).code, 0, "{root}");
    assert!(package.has("sub/inner/x.yaml"));
}

#[test]
fn reading_stays_inside_the_package() {
    type Make = dyn Fn(&Package);
    let make: [(&str, &Make); 6] = [
        ("leads out of the package", &|package| {
            symlink("../secret.yaml", package.path.join("a.yaml")).unwrap();
        }),
        ("leads out of the package", &|package| symlink("/dev/zero", package.path.join("a.yaml")).unwrap()),
        ("leads out of the package", &|package| {
            fs::create_dir(package.path.join("sub")).unwrap();
            symlink("/dev/zero", package.path.join("sub/Kptfile")).unwrap();
        }),
        ("leads out of the package", &|package| {
            symlink("/dev/zero", package.path.join(".krmignore")).unwrap();
        }),
        ("leads in a circle", &|package| symlink("a.yaml", package.path.join("a.yaml")).unwrap()),
        ("not a regular file", &|package| {
            assert!(Command::new("mkfifo").arg(package.path.join("a.yaml")).status().unwrap().success());
        }),
    ];
    for (reason, make) in make {
        let package = Package::new(&[("Kptfile", KPTFILE), ("cm.yaml", CM)]);
        fs::write(package.path.parent().unwrap().join("secret.yaml"), CM.replace("blue", "secret")).unwrap();
        make(&package);
        assert_refused(&render(&package, &[]), reason);
        for command in [&["fn", "source", "app"][..], &["fn", "eval", "app", "-i", "no-op"]] {
            let ran = loggia(command, package.path.parent().unwrap(), "");
            // A folder whose Kptfile cannot be read is a package all the same.
            assert_refused(&ran, reason);
            assert!(!ran.stdout.contains("secret"), "{ran:?}");
        }
    }
}

#[test]
fn a_config_path_is_a_regular_file_of_the_package() {
    let kptfile = format!("{KPTFILE}pipeline:\n  mutators:\n  - image: no-op\n    configPath: fn.txt\n");
    for (target, reason) in [
        ("/dev/zero", "leads out of the package"),
        ("/dev/stdin", "leads out of the package"),
        ("../secret", "leads out of the package"),
    ] {
        let package = Package::new(&[("Kptfile", &kptfile)]);
        symlink(target, package.path.join("fn.txt")).unwrap();
        assert_refused(&render(&package, &[]), reason);
    }
    let package = Package::new(&[("Kptfile", &kptfile)]);
    assert!(Command::new("mkfifo").arg(package.path.join("fn.txt")).status().unwrap().success());
    assert_refused(&render(&package, &[]), "not a regular file");
    let ran = loggia(
        &["fn", "eval", "app", "-i", "no-op", "--fn-config", "app/fn.txt"],
        package.path.parent().unwrap(),
        "",
    );
    assert_refused(&ran, "not a regular file");
    let ran = loggia(
        &["fn", "eval", "app", "-i", "no-op", "--fn-config", "/dev/zero"],
        package.path.parent().unwrap(),
        "",
    );
    assert_refused(&ran, "not a regular file");
}

#[test]
fn a_pipe_of_the_shell_may_be_a_function_config() {
    let package = Package::new(&[("cm.yaml", CM)]);
    let script = format!(
        "{} fn eval app -i set-labels --fn-config <(printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {{name: c}}\\ndata: {{a: b}}\\n')",
        env!("CARGO_BIN_EXE_loggia")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(package.path.parent().unwrap());
    let ran = run(&mut bash, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(package.read("cm.yaml").contains("a: b"));
}

#[test]
fn results_do_not_follow_a_link_of_the_package() {
    let package = Package::new(&[("Kptfile", KPTFILE), ("cm.yaml", CM)]);
    let victim = package.path.parent().unwrap().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, package.path.join("results.yaml")).unwrap();
    fs::write(package.path.join(".krmignore"), "results.yaml\n").unwrap();
    let ran = render(&package, &["--results-dir", "app"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(package.read("results.yaml").contains("FunctionResultList"));
}

#[test]
fn limits_end_in_an_error_that_names_the_flag() {
    let package = Package::new(&[
        ("Kptfile", KPTFILE),
        ("cm.yaml", CM),
        ("big.yaml", &format!("{CM}  x: {}\n", "y".repeat(5000))),
    ]);
    assert_refused(&render(&package, &["--max-file-size", "1000"]), "(--max-file-size)");
    assert_refused(&render(&package, &["--max-package-size", "1000"]), "(--max-package-size)");
    assert_refused(&render(&package, &["--max-package-files", "2"]), "(--max-package-files)");
    let nested = Package::new(&[]);
    for level in 0..200 {
        nested.write(&format!("{}Kptfile", "a/".repeat(level)), KPTFILE);
    }
    assert_refused(&render(&nested, &[]), "packages nest more than 64 deep (--max-package-depth)");
    assert_eq!(render(&nested, &["--max-package-depth", "200"]).code, 0);
    let breadth_first =
        KPTFILE.replace("name: app\n", "name: app\n  annotations:\n    kpt.dev/bfs-rendering: \"true\"\n");
    nested.write("Kptfile", &breadth_first);
    assert_refused(&render(&nested, &[]), "packages nest more than 64 deep (--max-package-depth)");
    let steps = "  - image: no-op\n".repeat(1001);
    let long = Package::new(&[("Kptfile", &format!("{KPTFILE}pipeline:\n  mutators:\n{steps}"))]);
    assert_refused(
        &render(&long, &[]),
        "has 1001 functions, more than the 1000 that are allowed (--max-pipeline-steps)",
    );
    let source =
        loggia(&["fn", "source", "app", "--max-package-files", "1"], package.path.parent().unwrap(), "");
    assert_refused(&source, "(--max-package-files)");
    let sink = loggia(&["fn", "sink", "new", "--max-package-size", "10"], package.path.parent().unwrap(), CM);
    assert_refused(&sink, "standard input has more than 10 bytes (--max-package-size)");
}

#[test]
fn values_that_double_with_each_step_end_in_an_error() {
    let step = "  - image: search-replace\n    configMap:\n      by-value-regex: ^(a+)$\n      put-value: ${1}${1}\n";
    let kptfile = format!("{KPTFILE}pipeline:\n  mutators:\n{}", step.repeat(40));
    let package = Package::new(&[("Kptfile", &kptfile), ("cm.yaml", &CM.replace("blue", "aaaa"))]);
    let ran = render(&package, &["--max-package-size", "1000000"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("more than 1000000 bytes"),
        "{}",
        &ran.stderr[ran.stderr.len().saturating_sub(1000)..]
    );
    assert!(package.read("cm.yaml").contains("aaaa"));
}

#[test]
fn nothing_of_a_package_is_obeyed_by_the_terminal() {
    let nasty = "\\x1b]0;title\\x07\\x1b[2J\\x1b[1;1H[PASS] all fine\\r\\x9b1m\\u202eevil\\u200b";
    let package =
        Package::new(&[("Kptfile", &starlark(&format!("print({nasty:?})", nasty = "X"))), ("cm.yaml", CM)]);
    package.write("Kptfile", &starlark(&format!("print(\"{nasty}\")\nfail(\"{nasty}\")")));
    let check = |ran: &Ran| {
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let bad = text.chars().find(|c| {
                (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202e}' | '\u{200b}')
            });
            assert_eq!(bad, None, "{name}: {text:?}");
        }
    };
    let ran = render(&package, &[]);
    check(&ran);
    assert!(ran.stderr.contains("\\x1b]0;title\\x07"), "{}", ran.stderr);
    // In names of files, in errors and in a diff.
    let package = Package::new(&[("Kptfile", KPTFILE), ("a\u{1b}[2J\u{202e}.yaml", "a: b: c\n")]);
    let ran = render(&package, &[]);
    check(&ran);
    assert!(ran.stderr.contains("a\\x1b[2J\\u{202e}.yaml"), "{}", ran.stderr);
    let package = Package::new(&[
        ("Kptfile", KPTFILE),
        ("a\u{1b}[2J.yaml", "# \u{202e}bidi\napiVersion: v1\nkind: A\nmetadata:\n    name: \"x\"\n"),
    ]);
    check(&render(&package, &["--diff"]));
    check(&loggia(&["fn", "render", "x\u{1b}[2J"], &package.path, ""));
    check(&loggia(&["fn", "\u{1b}[2J"], &package.path, ""));
    check(&loggia(&["fn", "doc", "\u{1b}[2J"], &package.path, ""));
    check(&loggia(&["fn", "eval", "-i", "\u{1b}[2J"], &package.path, ""));
    // Data on a pipe stays as it is.
    let ran = loggia(&["fn", "source", "."], &package.path, "");
    assert!(ran.stdout.contains("\u{202e}bidi"), "{}", ran.stdout);
}

#[test]
fn data_on_a_terminal_is_made_visible() {
    let package =
        Package::new(&[("a.yaml", "# \u{202e}bidi\napiVersion: v1\nkind: A\nmetadata:\n  name: x\n")]);
    let mut script = Command::new("script");
    let command = format!("{} fn source .", env!("CARGO_BIN_EXE_loggia"));
    script.args(["-qec", &command, "/dev/null"]).current_dir(&package.path);
    let ran = run(&mut script, "");
    assert!(ran.stdout.contains("\\u{202e}bidi"), "{ran:?}");
    assert!(!ran.stdout.contains('\u{202e}'), "{ran:?}");
}

#[test]
fn a_large_package_is_possible() {
    let package =
        Package::new(&[("Kptfile", &format!("{KPTFILE}pipeline:\n  mutators:\n  - image: no-op\n"))]);
    for number in 0..3_000 {
        package
            .write(&format!("d{}/cm{number}.yaml", number % 50), &CM.replace("cm", &format!("cm{number}")));
    }
    let ran = render(&package, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
