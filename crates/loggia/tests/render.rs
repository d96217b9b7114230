//! `loggia fn render`, run as a program: exit code, output, files.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

use support::{CM, Package, kptfile, loggia, run};

// === a render that goes well ===

#[test]
fn a_render_changes_files_and_leaves_a_status() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/"]);
    let ran = package.render(&[]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            0,
            "Package \"app\":
[RUNNING] \"sed s/[b]lue/green/\" on package \"app\"
[PASS] \"sed s/[b]lue/green/\" in 0s

Successfully executed 1 function(s) in 1 package(s).
"
        )
    );
    assert_eq!(package.read("cm.yaml"), CM.replace("blue", "green"));
    let status = "status:
  conditions:
    - type: Rendered
      status: \"True\"
      reason: RenderSuccess
  renderStatus:
    mutationSteps:
      - exec: sed s/[b]lue/green/
        exitCode: 0
";
    assert_eq!(package.read("Kptfile"), kptfile(&["sed s/[b]lue/green/"], &[]) + status);
}

#[test]
fn a_second_render_changes_nothing_and_touches_no_file() {
    let package = Package::with_mutators(&["cat"]);
    assert_eq!(package.render(&[]).code, 0);
    let stamp = |file: &str| {
        let metadata = fs::metadata(package.path.join(file)).unwrap();
        (metadata.ino(), metadata.mtime_nsec())
    };
    let before = (stamp("Kptfile"), stamp("cm.yaml"));
    assert_eq!(package.render(&[]).code, 0);
    assert_eq!((stamp("Kptfile"), stamp("cm.yaml")), before);
}

#[test]
fn comments_and_headers_of_people_stay() {
    let package = Package::with_mutators(&[]);
    package.write(
        "Kptfile",
        "# who to ask: team web\n\napiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app # short\npipeline:\n  mutators:\n    # why this one\n    - exec: cat\n",
    );
    package.write("cm.yaml", &format!("# licence\n\n# about\n{CM}"));
    assert_eq!(package.render(&[]).code, 0);
    let kptfile = package.read("Kptfile");
    assert!(
        kptfile.starts_with(
            "# who to ask: team web\n\napiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app # short\npipeline:\n  mutators:\n    # why this one\n    - exec: cat\nstatus:\n"
        ),
        "{kptfile}"
    );
    assert_eq!(package.read("cm.yaml"), format!("# licence\n\n# about\n{CM}"));
}

#[test]
fn packages_inside_come_first_or_on_request_last() {
    let package = Package::with_mutators(&["sed s/[b]lue/outer/"]);
    package.write("db/Kptfile", &kptfile(&["sed s/[b]lue/inner/"], &[]));
    package.write("db/cm.yaml", CM);
    let ran = package.render(&[]);
    let order: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("Package")).collect();
    assert_eq!(order, ["Package \"app/db\":", "Package \"app\":"]);
    assert!(package.read("db/cm.yaml").contains("inner"));
    assert!(package.read("cm.yaml").contains("outer"));
    assert!(!package.read("db/Kptfile").contains("status"), "only the root has a status");

    let package =
        Package::new(&[("db/cm.yaml", CM), ("db/Kptfile", &kptfile(&["sed s/[b]lue/inner/"], &[]))]);
    let annotated = kptfile(&["sed s/[b]lue/outer/"], &[])
        .replace("  name: app\n", "  name: app\n  annotations:\n    kpt.dev/bfs-rendering: \"True\"\n");
    package.write("Kptfile", &annotated);
    let ran = package.render(&[]);
    let order: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("Package")).collect();
    assert_eq!(order, ["Package \"app\":", "Package \"app/db\":"]);
    assert!(package.read("db/cm.yaml").contains("outer"));
}

#[test]
fn a_parent_may_remove_all_that_a_package_inside_holds() {
    for annotations in ["", "  annotations:\n    kpt.dev/bfs-rendering: \"true\"\n"] {
        let package = Package::new(&[("db/cm.yaml", CM), ("db/Kptfile", &kptfile(&[], &[]))]);
        let drop = package.program(
            "drop-db",
            "awk 'BEGIN{RS=\"(^|\\n)- \"; ORS=\"\"} NR==1{print; print \"\\n\"} NR>1 && !/app\\/db/ {print \"- \" $0 \"\\n\"}'",
        );
        let text = kptfile(&[&drop], &[]).replace("  name: app\n", &format!("  name: app\n{annotations}"));
        package.write("Kptfile", &text);
        let ran = package.render(&[]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(!package.has("db/cm.yaml") && !package.has("db/Kptfile") && package.has("Kptfile"));
    }
}

#[test]
fn generated_resources_get_a_file_by_their_kind_and_name() {
    let package = Package::with_mutators(&[]);
    let generate = package.program(
        "generate",
        "sed 's/^items:$/items:\\n- apiVersion: v1\\n  kind: Secret\\n  metadata:\\n    name: s\\n    namespace: n/'",
    );
    package.write("Kptfile", &kptfile(&[&generate], &[]));
    assert_eq!(package.render(&[]).code, 0);
    assert_eq!(
        package.read("n/secret_s.yaml"),
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: n\n"
    );
}

#[test]
fn one_spelling_of_a_path_moves_the_resource() {
    let package = Package::with_mutators(&[
        "sed \"s|  config.kubernetes.io/path: 'cm.[y]aml'|  config.kubernetes.io/path: 'moved/x.yaml'|\"",
    ]);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!package.has("cm.yaml"));
    assert_eq!(package.read("moved/x.yaml"), CM);
}

#[test]
fn a_validator_changes_nothing() {
    let package = Package::new(&[("Kptfile", &kptfile(&[], &["sed s/[b]lue/green/"])), ("cm.yaml", CM)]);
    assert_eq!(package.render(&[]).code, 0);
    assert_eq!(package.read("cm.yaml"), CM);
    assert!(package.read("Kptfile").contains("validationSteps"));
}

#[test]
fn overlapping_selectors_give_a_resource_once() {
    let package = Package::new(&[("cm.yaml", CM), ("other.yaml", &CM.replace("name: cm", "name: other"))]);
    let text = kptfile(&["sed s/[b]lue/green/"], &[])
        + "      selectors:\n        - kind: ConfigMap\n          name: cm\n        - name: cm\n";
    package.write("Kptfile", &text);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("on 1 resource(s) on package"), "{}", ran.stderr);
    assert!(package.read("cm.yaml").contains("green") && package.read("other.yaml").contains("blue"));
}

#[test]
fn a_field_may_change_its_type() {
    let package = Package::with_mutators(&["sed 's/colour: [b]lue/colour: [blue]/'"]);
    assert_eq!(package.render(&[]).code, 0);
    assert!(package.read("cm.yaml").ends_with("data:\n  colour: [blue]\n"));
}

#[test]
fn an_answer_in_json_is_written_in_the_style_the_file_had() {
    let package = Package::with_mutators(&[]);
    let commented = CM.replace("name: cm", "name: cm # ours");
    package.write("cm.yaml", &commented);
    let answer = package.path.parent().unwrap().join("answer.json");
    let annotations = |path: &str| {
        format!(
            "\"config.kubernetes.io/path\":\"{path}\",\"internal.config.kubernetes.io/path\":\"{path}\",\"config.kubernetes.io/index\":\"0\",\"internal.config.kubernetes.io/index\":\"0\",\"internal.config.kubernetes.io/package-path\":\"{}\"",
            package.path.display()
        )
    };
    let program = package.program("json", &format!("cat >/dev/null; cat {}", answer.display()));
    package.write("Kptfile", &kptfile(&[&program], &[]));
    fs::write(
        &answer,
        format!(
            r#"{{"apiVersion":"config.kubernetes.io/v1","kind":"ResourceList","items":[{{"apiVersion":"kpt.dev/v1","kind":"Kptfile","metadata":{{"name":"app","annotations":{{{},"internal.config.kubernetes.io/id":"1"}}}},"pipeline":{{"mutators":[{{"exec":"{program}"}}]}}}},{{"kind":"ConfigMap","apiVersion":"v1","data":{{"colour":"red","size":"5"}},"metadata":{{"annotations":{{{},"internal.config.kubernetes.io/id":"2"}},"name":"cm"}}}}]}}"#,
            annotations("Kptfile"),
            annotations("cm.yaml")
        ),
    )
    .unwrap();
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(package.read("cm.yaml"), commented.replace("blue", "red") + "  size: \"5\"\n");
}

// === failures ===

#[test]
fn exec_needs_permission() {
    let package = Package::with_mutators(&["touch never"]);
    let path = package.path.display().to_string();
    let ran = loggia(&["fn", "render", &path], package.path.parent().unwrap(), "");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            1,
            "Package \"app\":\nError: must run with `--allow-exec` option to allow running function binaries \n"
        )
    );
    assert!(package.read("Kptfile").contains("executionError: must run with `--allow-exec`"));
    assert_eq!(package.read("cm.yaml"), CM);
}

#[test]
fn a_later_function_that_nobody_has_keeps_the_first_from_running() {
    let package = Package::with_mutators(&["touch ran"]);
    let text = kptfile(&["touch ran"], &[]) + "    - image: noop\n";
    package.write("Kptfile", &text);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("function \"ghcr.io/kptdev/krm-functions-catalog/noop:latest\" not found"));
    assert!(ran.stderr.contains("the nearest built-in functions are no-op"), "{}", ran.stderr);
    assert!(!package.path.parent().unwrap().join("ran").exists());
}

#[test]
fn a_function_that_fails_leaves_the_files_alone_and_its_words_in_the_status() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/", "sh -c 'echo oops >&2; exit 3'"]);
    let ran = package.render(&["--results-dir", "results"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.ends_with(
            "[FAIL] \"sh -c 'echo oops >&2; exit 3'\" in 0s\n  Stderr:\n    oops\n    \n  Exit code: 3\n\nFor complete results, see results/results.yaml\n"
        ),
        "{}",
        ran.stderr
    );
    assert_eq!(package.read("cm.yaml"), CM);
    let status = package.read("Kptfile");
    assert!(status.contains(
        "message: |-\n        pkg.render: pkg .:\n        \tpipeline.run: already handled error\n"
    ));
    assert!(status.contains("errorSummary: 'sh -c ''echo oops >&2; exit 3'': exit code 3'\n"), "{status}");
    let results = fs::read_to_string(package.path.parent().unwrap().join("results/results.yaml")).unwrap();
    assert!(
        results.contains("exitCode: 1\nitems:\n  - exec: sed s/[b]lue/green/\n    exitCode: 0\n"),
        "{results}"
    );
}

#[test]
fn a_function_that_prints_nothing_is_an_error_and_no_emptied_package() {
    let package = Package::with_mutators(&["true"]);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Error: function \"true\" ended well but wrote nothing to standard output"));
    assert_eq!(package.read("cm.yaml"), CM);
    assert!(package.read("Kptfile").contains("executionError: function \"true\" ended well"));
}

#[test]
fn a_function_that_drops_the_kptfile_is_an_error() {
    let package =
        Package::with_mutators(&["sh -c 'cat >/dev/null; echo \"{kind: ResourceList, items: []}\"'"]);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("removed the Kptfile of package \"app\""), "{}", ran.stderr);
    assert_eq!(package.read("cm.yaml"), CM);
}

#[test]
fn the_real_cause_is_recorded() {
    for (command, cause) in [
        ("no-such-program-here", "exec: \"no-such-program-here\": executable file not found in $PATH"),
        ("echo '['", "output is no ResourceList"),
    ] {
        let package = Package::with_mutators(&[command]);
        let ran = package.render(&[]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains(cause), "{}", ran.stderr);
        assert!(package.read("Kptfile").contains("executionError: "), "{}", package.read("Kptfile"));
    }
}

#[test]
fn a_failure_deep_inside_saves_what_was_done_if_asked_to() {
    let package = Package::new(&[("a/b/cm.yaml", CM), ("a/cm.yaml", CM), ("cm.yaml", CM)]);
    let root = kptfile(&[], &[]).replace(
        "  name: app\n",
        "  name: app\n  annotations:\n    kpt.dev/save-on-render-failure: \"true\"\n",
    );
    package.write("Kptfile", &root);
    package.write("a/Kptfile", &kptfile(&[], &[]));
    package.write("a/b/Kptfile", &kptfile(&["sed s/[b]lue/green/", "false"], &[]));
    let ran = package.render(&[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Partially executed 1 function(s) in 3 package(s).\n"), "{}", ran.stderr);
    assert!(package.read("a/b/cm.yaml").contains("green"));
    assert!(package.read("Kptfile").contains(
        "pkg.render: pkg ./a:\n        \tpkg ./a/b:\n        \tpipeline.run: already handled error"
    ));
}

#[test]
fn results_of_severity_error_fail_only_if_asked_to() {
    let package =
        Package::with_mutators(&["sh -c 'cat; echo \"results: [{message: bad, severity: error}]\"'"]);
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("  [Results]:\n    [error]: bad\n"));
    let ran = package.render(&["--strict"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("reported 1 result(s) of severity error"), "{}", ran.stderr);
}

#[test]
fn a_function_that_takes_too_long_is_stopped() {
    let package = Package::with_mutators(&["sleep 60"]);
    let ran = package.render(&["--timeout", "1s"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("ran for longer than 1s (--timeout) and was stopped"), "{}", ran.stderr);
}

#[test]
fn packages_that_are_none_are_told_in_known_words() {
    let package = Package::new(&[("cm.yaml", CM)]);
    let path = package.path.display().to_string();
    let ran = package.render(&[]);
    assert_eq!((ran.code, ran.stderr), (1, format!("Error: No Kptfile found at \"{path}\". \n")));
    package.write("Kptfile", "apiVersion: kpt.dev/v1alpha1\nkind: Kptfile\nmetadata:\n  name: x\n");
    assert!(package.render(&[]).stderr.contains("has an old version (\"v1alpha1\") of the Kptfile schema."));
    package.write("Kptfile", &(kptfile(&["cat"], &[]) + "      configPath: ../x.yaml\n"));
    assert_eq!(
        package.render(&[]).stderr,
        "Kptfile is invalid:\nField: `pipeline.mutators[0].configPath`\nValue: \"../x.yaml\"\nReason: path must not be outside the package\n \n"
    );
}

// === ways out ===

#[test]
fn output_goes_elsewhere_and_the_package_stays() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/"]);
    let before = package.read("Kptfile");
    let ran = package.render(&["-o", "unwrap"]);
    assert_eq!(ran.stdout, format!("{before}---\n{}", CM.replace("blue", "green")));
    let ran = package.render(&["-o", "stdout"]);
    assert!(ran.stdout.starts_with(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- apiVersion: kpt.dev/v1\n"
    ));
    assert_eq!(package.render(&["-o", "out"]).code, 0);
    let out = package.path.parent().unwrap().join("out/cm.yaml");
    assert_eq!(fs::read_to_string(out).unwrap(), CM.replace("blue", "green"));
    let ran = package.render(&["-o", "out"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (1, "error: directory \"out\" already exists, please delete the directory and retry\n")
    );
    assert_eq!((package.read("Kptfile"), package.read("cm.yaml").as_str()), (before, CM));
}

#[test]
fn a_diff_writes_nothing() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/"]);
    let before = package.read("Kptfile");
    let ran = package.render(&["--diff"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("--- a/cm.yaml\n+++ b/cm.yaml\n@@ -3,4 +3,4 @@\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("-  colour: blue\n+  colour: green\n"));
    assert_eq!((package.read("Kptfile"), package.read("cm.yaml").as_str()), (before, CM));
}

#[test]
fn programs_get_json() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/"]);
    let ran = package.render(&["--output-format", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let report = loggia_yaml::parse_first(&ran.stdout).unwrap().unwrap().root;
    assert_eq!(report.get("succeeded").unwrap().as_bool(), Some(true));
    assert_eq!(report.get("written").unwrap().len(), 2);
    assert_eq!(report.at(&["results", "0", "exec"]).unwrap().as_str(), Some("sed s/[b]lue/green/"));
}

#[test]
fn called_as_kpt_it_behaves_the_same() {
    let package = Package::with_mutators(&["sed s/[b]lue/green/"]);
    let link = package.path.parent().unwrap().join("kpt");
    symlink(env!("CARGO_BIN_EXE_loggia"), &link).unwrap();
    let ran = run(Command::new(&link).args(["fn", "render", "--allow-exec"]).current_dir(&package.path), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(package.read("cm.yaml").contains("green"));
}

#[test]
fn a_link_to_a_package_is_followed_with_a_warning() {
    let package = Package::with_mutators(&["cat"]);
    symlink("app", package.path.parent().unwrap().join("link")).unwrap();
    let ran = loggia(&["fn", "render", "link", "--allow-exec"], package.path.parent().unwrap(), "");
    assert!(ran.stderr.starts_with("[WARN] resolved symlink \"link\" to \"app\", please note that the symlinks within the package are ignored\nPackage \"app\":\n"), "{}", ran.stderr);
}

#[test]
fn a_program_of_the_package_is_found_from_anywhere() {
    let package = Package::with_mutators(&["./bin/paint"]);
    let program = package.write("bin/paint", "#!/bin/sh\nsed s/[b]lue/green/\n");
    fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn the_package_context_is_reachable_as_a_function() {
    let package = Package::new(&[]);
    package.write(
        "Kptfile",
        &(kptfile(&[], &[]) + "pipeline:\n  mutators:\n    - image: builtins/gen-pkg-context\n"),
    );
    let ran = package.render(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(package.read("package-context.yaml").contains("data:\n  name: app\n"));
}

#[test]
fn a_terminal_gets_colours_and_a_live_line() {
    let package = Package::new(&[("cm.yaml", CM)]);
    let slow = package.program("slow", "sleep 0.7; exec cat");
    package.write("Kptfile", &kptfile(&[&slow], &[]));

    let plain = package.render(&[]);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    assert!(!plain.stderr.contains('\u{1b}') && !plain.stderr.contains('…'), "{:?}", plain.stderr);

    let shown = on_a_terminal(&package, "");
    assert!(shown.contains("\u{1b}[33m[RUNNING]\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("\u{1b}[32m[PASS]\u{1b}[0m"), "{shown:?}");
    // The line is drawn over and over, and is gone before the next one that stays.
    assert!(shown.matches("\r\u{1b}[2K  … slow 0.").count() > 1, "{shown:?}");
    assert!(shown.contains("\r\u{1b}[2K\u{1b}[32m[PASS]"), "{shown:?}");

    let uncoloured = on_a_terminal(&package, "NO_COLOR=1");
    assert!(uncoloured.contains("[PASS]") && !uncoloured.contains("\u{1b}[3"), "{uncoloured:?}");
}

/// What a render writes to a terminal.
fn on_a_terminal(package: &Package, setting: &str) -> String {
    let program = env!("CARGO_BIN_EXE_loggia");
    let line =
        format!("TERM=xterm {setting} '{program}' fn render '{}' --allow-exec", package.path.display());
    let arguments = ["--quiet", "--return", "--command", &line, "/dev/null"];
    let ran = run(Command::new("script").args(arguments), "");
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    ran.stdout
}
