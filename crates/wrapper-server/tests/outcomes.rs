//! What the caller gets for what a function writes: the outcome rules, case by case.
//!
//! With `LOGGIA_ORIGINAL_WRAPPER` set to Porch's own wrapper server the same table is held against that
//! program too.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use loggia_evaluator::wire::details::evaluation_error::Kind;
use tonic::Code;

mod support;

use Verdict::{Invalid, List};
use support::{Called as _, Server, details, evaluate, wrapper};

/// A function's output, and what is to be thought of it.
struct Case {
    what: &'static str,
    output: &'static str,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
enum Verdict {
    /// It is a list with these results.
    List(&'static str),
    /// It is no list, for this reason; more may follow.
    Invalid(&'static str),
}

const IMAGE: &str = "example.com/fn:v1";

/// The one case that ends the original: it is not held against that.
const FATAL_FOR_THE_ORIGINAL: &str = "a null result";

fn cases() -> Vec<Case> {
    let case = |what, output, verdict| Case { what, output, verdict };
    vec![
        case("a list", "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n", List("")),
        case("nothing", "", Invalid("failed to parse input bytes: expected exactly one object, got 0")),
        case(
            "a comment",
            "# nothing here\n",
            Invalid("failed to parse input bytes: expected exactly one object, got 0"),
        ),
        case(
            "two documents",
            "kind: ResourceList\n---\nkind: ResourceList\n",
            Invalid("failed to parse input bytes: expected exactly one object, got 2"),
        ),
        case(
            "an empty second document",
            "kind: ResourceList\n---\n",
            Invalid("failed to parse input bytes: failed to extract objects: unhandled node kind 8"),
        ),
        case("a leading separator", "---\nkind: ResourceList\n", List("")),
        case("a comment document", "# c\n---\nkind: ResourceList\n", List("")),
        case(
            "a sequence",
            "- a\n- b\n",
            Invalid("failed to parse input bytes: failed to extract objects: unhandled node kind 2"),
        ),
        case(
            "a scalar",
            "hello\n",
            Invalid("failed to parse input bytes: failed to extract objects: unhandled node kind 8"),
        ),
        case(
            "another kind",
            "kind: List\nitems: []\n",
            Invalid("input was of unexpected kind \"List\"; expected ResourceList"),
        ),
        case("no kind", "items: []\n", Invalid("input was of unexpected kind \"\"; expected ResourceList")),
        case(
            "null kind",
            "kind:\nitems: []\n",
            Invalid("input was of unexpected kind \"\"; expected ResourceList"),
        ),
        case(
            "numeric kind",
            "kind: 5\n",
            Invalid("input was of unexpected kind \"\"; expected ResourceList"),
        ),
        case("another version", "apiVersion: v1\nkind: ResourceList\n", List("")),
        case(
            "null items",
            "kind: ResourceList\nitems:\n",
            Invalid("failed when tried to get items: incorrect type, was *internal.scalarVariant"),
        ),
        case(
            "items of another type",
            "kind: ResourceList\nitems: {}\n",
            Invalid("failed when tried to get items: incorrect type, was *internal.MapVariant"),
        ),
        case(
            "text items",
            "kind: ResourceList\nitems: x\n",
            Invalid("failed when tried to get items: incorrect type, was *internal.scalarVariant"),
        ),
        case(
            "an item that is no mapping",
            "kind: ResourceList\nitems:\n- x\n",
            Invalid("failed to extract objects from items: unhandled node kind 8"),
        ),
        case(
            "a null item",
            "kind: ResourceList\nitems:\n- a: b\n-\n",
            Invalid("failed to extract objects from items: unhandled node kind 8"),
        ),
        case(
            "an item that is a sequence",
            "kind: ResourceList\nitems:\n- [a]\n",
            Invalid("failed to extract objects from items: unhandled node kind 2"),
        ),
        case("an item without kind", "kind: ResourceList\nitems:\n- a: b\n", List("")),
        case(
            "null functionConfig",
            "kind: ResourceList\nfunctionConfig:\n",
            Invalid("failed when tried to get functionConfig: wrong type, got: *internal.scalarVariant"),
        ),
        case(
            "functionConfig of another type",
            "kind: ResourceList\nfunctionConfig: []\n",
            Invalid("failed when tried to get functionConfig: wrong type, got: *internal.SliceVariant"),
        ),
        case("functionConfig", "kind: ResourceList\nfunctionConfig:\n  kind: X\n", List("")),
        case("null results", "kind: ResourceList\nresults:\n", List("")),
        case("results of another type", "kind: ResourceList\nresults: {}\n", List("")),
        case("no results", "kind: ResourceList\nresults: []\n", List("")),
        case("a result", "kind: ResourceList\nresults:\n- message: m\n", List("[info]: m")),
        case(
            "a full result",
            "kind: ResourceList\nresults:\n- message: bad\n  severity: error\n  resourceRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: n\n    namespace: ns\n  field:\n    path: spec.replicas\n    currentValue: 1\n    proposedValue: {a: 2}\n  file:\n    path: f.yaml\n    index: 3\n  tags:\n    k: v\n- message: second\n  severity: warning\n",
            List("[error] apps/v1/Deployment/ns/n spec.replicas: bad\n\n[warning]: second"),
        ),
        case(
            "a result without namespace",
            "kind: ResourceList\nresults:\n- message: m\n  severity: info\n  resourceRef:\n    apiVersion: v1\n    kind: Service\n    name: n\n",
            List("[info] v1/Service/n: m"),
        ),
        case(
            "a result with a field only",
            "kind: ResourceList\nresults:\n- message: m\n  field:\n    path: a.b\n",
            List("[info] a.b: m"),
        ),
        case(
            "a result with a name only",
            "kind: ResourceList\nresults:\n- message: m\n  resourceRef:\n    name: n\n",
            List("[info] n: m"),
        ),
        case(
            "a result with a file",
            "kind: ResourceList\nresults:\n- message: m\n  file:\n    path: x.yaml\n",
            List("[info]: m"),
        ),
        case(
            "a result without message",
            "kind: ResourceList\nresults:\n- severity: error\n",
            List("[error]: "),
        ),
        case(
            "a result that is text",
            "kind: ResourceList\nresults:\n- text\n",
            Invalid(
                "yaml: unmarshal errors:\n  line 3: cannot unmarshal !!str `text` into fn.Result\nfailed to decode results",
            ),
        ),
        case("a null result", "kind: ResourceList\nresults:\n-\n", List("[info]: ")),
        case("a numeric message", "kind: ResourceList\nresults:\n- message: 5\n", List("[info]: 5")),
        case(
            "a message of another type",
            "kind: ResourceList\nresults:\n- message: [a]\n",
            Invalid(
                "yaml: unmarshal errors:\n  line 3: cannot unmarshal !!seq into string\nfailed to decode results",
            ),
        ),
        case(
            "an index of another type",
            "kind: ResourceList\nresults:\n- message: m\n  file:\n    index: x\n",
            Invalid(
                "yaml: unmarshal errors:\n  line 5: cannot unmarshal !!str `x` into int\nfailed to decode results",
            ),
        ),
        case(
            "an unknown key in a result",
            "kind: ResourceList\nresults:\n- message: m\n  other: x\n",
            List("[info]: m"),
        ),
        case(
            "a severity of its own",
            "kind: ResourceList\nresults:\n- message: m\n  severity: fatal\n",
            List("[fatal]: m"),
        ),
        case(
            "tags of another type",
            "kind: ResourceList\nresults:\n- message: m\n  tags: [a]\n",
            Invalid(
                "yaml: unmarshal errors:\n  line 4: cannot unmarshal !!seq into map[string]string\nfailed to decode results",
            ),
        ),
        case(
            "resourceRef of another type",
            "kind: ResourceList\nresults:\n- message: m\n  resourceRef: x\n",
            Invalid(
                "yaml: unmarshal errors:\n  line 4: cannot unmarshal !!str `x` into fn.ResourceRef\nfailed to decode results",
            ),
        ),
        case(
            "a multi-line message",
            "kind: ResourceList\nresults:\n- message: |\n    a\n    b\n  severity: error\n",
            List("[error]: a\nb\n"),
        ),
        case("JSON", "{\"kind\": \"ResourceList\", \"items\": [{\"a\": 1}]}", List("")),
        case(
            "a tab",
            "kind: ResourceList\nitems:\n\t- a: b\n",
            Invalid(
                "failed to parse input bytes: failed to parse input bytes: yaml: line 3: found character that cannot start any token",
            ),
        ),
        case("a byte order mark", "\u{feff}kind: ResourceList\n", List("")),
        case("carriage returns", "kind: ResourceList\r\nitems:\r\n- a: b\r\n", List("")),
        case(
            "broken YAML",
            "kind: ResourceList\nitems: [\n",
            Invalid(
                "failed to parse input bytes: failed to parse input bytes: yaml: line 2: did not find expected node content",
            ),
        ),
        case(
            "an unknown anchor",
            "kind: ResourceList\nitems: *x\n",
            Invalid(
                "failed to parse input bytes: failed to parse input bytes: yaml: unknown anchor 'x' referenced",
            ),
        ),
        case("a duplicate key", "kind: ResourceList\nkind: ResourceList\n", List("")),
        case(
            "a control character",
            "kind: ResourceList\n\u{1}\n",
            Invalid(
                "failed to parse input bytes: failed to parse input bytes: yaml: control characters are not allowed",
            ),
        ),
        case(
            "text before the list",
            "Processing...\nkind: ResourceList\nitems: []\n",
            Invalid(
                "failed to parse input bytes: failed to parse input bytes: yaml: line 2: mapping values are not allowed in this context",
            ),
        ),
        case("a log line before the list", "done: true\nkind: ResourceList\n", List("")),
    ]
}

/// Holds a server, whose function echoes its input, against the table.
async fn hold(server: &Server, exit_code: i32, case: &Case) {
    let Case { what, output, verdict } = case;
    let answer = evaluate(&server.client(), IMAGE, Bytes::from_static(output.as_bytes())).await;
    match (verdict, exit_code) {
        (List(_), 0) => {
            let answer = answer.unwrap_or_else(|status| panic!("{what}: {status}"));
            assert_eq!(answer.resource_list, output, "{what}");
            assert_eq!(answer.log, "note\n", "{what}");
        }
        (List(results), _) => {
            let status = answer.expect_err(what);
            let expected = format!(
                "failed to evaluate function \"{IMAGE}\" with structured results: {results} and stderr: note\n"
            );
            assert_eq!((status.code(), status.message()), (Code::Internal, expected.as_str()), "{what}");
        }
        (Invalid(reason), _) => {
            let status = answer.expect_err(what);
            let expected =
                format!("failed to parse the output of function \"{IMAGE}\" with stderr 'note\n': {reason}");
            assert_eq!(status.code(), Code::Internal, "{what}");
            assert!(status.message().starts_with(&expected), "{what}: {}", status.message());
        }
    }
}

fn script(exit_code: i32) -> String {
    format!("cat; echo note >&2; exit {exit_code}")
}

#[tokio::test]
async fn every_outcome_is_the_one_of_the_rules() {
    for exit_code in [0, 3] {
        let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script(exit_code)]));
        for case in cases() {
            hold(&server, exit_code, &case).await;
        }
    }
}

#[tokio::test]
async fn the_original_gives_the_same_answers() {
    let Some(original) = std::env::var_os("LOGGIA_ORIGINAL_WRAPPER") else {
        return support::left_out("LOGGIA_ORIGINAL_WRAPPER names no program");
    };
    for exit_code in [0, 3] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(&original);
        command.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_TRACES_EXPORTER", "none");
        command.args(["--port", &port.to_string(), "--", "sh", "-c", &script(exit_code)]);
        let mut server = Server::launch(&mut command);
        server.port = port;
        support::eventually("the original listens", || {
            std::net::TcpStream::connect(server.address()).is_ok()
        })
        .await;
        for case in cases().iter().filter(|case| case.what != FATAL_FOR_THE_ORIGINAL) {
            hold(&server, exit_code, case).await;
        }
    }
}

#[tokio::test]
async fn details_tell_exit_code_and_results() {
    let output = "kind: ResourceList\nresults:\n- message: m\n  severity: error\n";
    let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script(3)]));
    let told = details(&evaluate(&server.client(), IMAGE, output).await.unwrap_err());
    assert_eq!((told.kind(), told.exit_code, told.image.as_str()), (Kind::FunctionFailed, Some(3), IMAGE));
    assert_eq!((told.results[0].message.as_str(), told.results[0].severity.as_str()), ("m", "error"));
    let told = details(&evaluate(&server.client(), IMAGE, "no list").await.unwrap_err());
    assert_eq!((told.kind(), told.exit_code), (Kind::InvalidOutput, Some(3)));
}

#[tokio::test]
async fn what_was_wrong_is_told_with_its_line() {
    let server = Server::start(&mut wrapper(&[], &["cat"]));
    for (output, line) in [
        ("kind: ResourceList\nitems:\n- a: b\n- text\n", "line 4"),
        ("kind: ResourceList\nitems: x\n", "line 2"),
        ("kind: ResourceList\nitems: [\n", "line 2"),
        ("a: b\nkind: ResourceList\nitems: *x\n", "line 3"),
    ] {
        let status = evaluate(&server.client(), IMAGE, output).await.unwrap_err();
        assert!(status.message().contains(line), "{}", status.message());
    }
}

#[tokio::test]
async fn aliases_are_followed() {
    let server = Server::start(&mut wrapper(&[], &["cat"]));
    for output in [
        "x: &k ResourceList\nkind: *k\n",
        "x: &i [{a: b}]\nkind: ResourceList\nitems: *i\n",
        "x: &r [{message: m}]\nkind: ResourceList\nresults: *r\nfunctionConfig: &f {}\n",
        "x: &i {a: b}\nkind: ResourceList\nitems: [*i]\n",
    ] {
        assert_eq!(evaluate(&server.client(), IMAGE, output).await.unwrap().resource_list, output);
    }
}

#[tokio::test]
async fn hostile_output_costs_an_error_and_the_server_lives() {
    let server = Server::start(&mut wrapper(&[], &["cat"]));
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\n{}kind: ResourceList\nitems: *i\n",
        ('b'..='i')
            .map(|name| {
                let before = char::from(u8::try_from(name).unwrap() - 1);
                format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(","))
            })
            .collect::<String>()
    );
    for output in ["[".repeat(1_000_000), "- ".repeat(1_000_000), "{a: ".repeat(500_000), bomb] {
        let status = evaluate(&server.client(), IMAGE, output).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{}", status.message());
    }
    assert!(evaluate(&server.client(), IMAGE, "kind: ResourceList\n").await.is_ok());
    let peak = server.memory("VmHWM");
    assert!(peak < 400 * 1024, "{peak} KiB");
}

#[tokio::test]
async fn a_command_that_cannot_run_is_told_with_its_path() {
    let server = Server::start(&mut wrapper(&[], &["/no/such/function"]));
    let status = evaluate(&server.client(), IMAGE, "").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(
        status.message(),
        "Failed to execute function \"example.com/fn:v1\": fork/exec /no/such/function: no such file or directory ()"
    );
}

#[tokio::test]
async fn a_function_that_hangs_ends_at_the_deadline_with_all_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let script = format!("(trap '' TERM; sleep 60) & echo $! > {}; wait", note.display());
    let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script]));
    let begin = std::time::Instant::now();
    let deadline = Some(Duration::from_millis(200));
    let status = server.client().evaluate(IMAGE, Bytes::new(), deadline).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(begin.elapsed() < Duration::from_millis(300), "{:?}", begin.elapsed());
    let grandchild = support::noted(&note).await;
    support::eventually("the grandchild is gone", || !support::is_running(grandchild)).await;
    assert!(begin.elapsed() < Duration::from_millis(1200), "{:?}", begin.elapsed());
    support::eventually("no child is left", || support::children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn a_double_fork_leaves_no_zombie() {
    let script = "(setsid sleep 0.05 >/dev/null 2>&1 </dev/null &); cat";
    let server = Server::start(&mut wrapper(&[], &["sh", "-c", script]));
    for _ in 0..50 {
        evaluate(&server.client(), IMAGE, "kind: ResourceList\n").await.unwrap();
    }
    support::eventually("every orphan is buried", || support::children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn the_limit_holds_in_both_directions() {
    const LIMIT: usize = 100_000;
    let limit = format!("--max-request-body-size={LIMIT}");
    let server = Server::start(&mut wrapper(&[&limit], &["sh", "-c", "cat; head -c 200000 /dev/zero"]));
    let client = loggia_evaluator::Client::new(&server.address(), 64 << 20).unwrap();
    let status = evaluate(&client, IMAGE, vec![b'x'; LIMIT]).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("grpc: received message larger than max (100023 vs. 100000); "));
    let status = evaluate(&client, IMAGE, "").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("wrote more than 100000 bytes"), "{}", status.message());
}

#[tokio::test]
async fn the_function_has_the_environment_of_the_container() {
    let script = "cat; echo \"$FROM_IMAGE\" >&2";
    let mut command = wrapper(&[], &["sh", "-c", script]);
    let server = Server::start(command.env("FROM_IMAGE", "yes"));
    let answer = evaluate(&server.client(), IMAGE, "kind: ResourceList\n").await.unwrap();
    assert_eq!(answer.log, "yes\n");
}

#[test]
fn without_a_function_the_server_does_not_start() {
    for (arguments, reason) in [
        (&[][..], "there is no function to run; its command line stands behind `--`"),
        (&["--"], "there is no function to run; its command line stands behind `--`"),
        (&["cat"], "there is no function to run; its command line stands behind `--`"),
        (&["--nope", "--", "cat"], "unknown flag: --nope"),
        (&["--port=x", "--", "cat"], "invalid argument \"x\" for \"--port\" flag: parse error"),
        (&["--port=70000", "--", "cat"], "--port: 70000 is no port"),
    ] {
        let (code, _, stderr) =
            support::output(Command::new(env!("CARGO_BIN_EXE_wrapper-server")).args(arguments));
        assert_eq!((code, stderr), (Some(2), format!("unexpected error: {reason}\n")), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_stop_answers_the_calls_in_flight() {
    let mut server = Server::start(&mut wrapper(&[], &["sh", "-c", "sleep 0.3; cat"]));
    let client = server.client();
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { evaluate(&client, IMAGE, "kind: ResourceList\n").await })
        })
        .collect();
    support::eventually("the calls run", || support::children_of(server.pid()).len() == 10).await;
    server.terminate();
    server.wait_for_line("Shutting down server...");
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(server.wait().code(), Some(0));
}
