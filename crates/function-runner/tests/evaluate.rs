//! Calls over the wire to a real service with real functions: answers and errors.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};
use std::{env, fs};

use bytes::Bytes;
use loggia_grpc::wire::details::evaluation_error::Kind;
use loggia_grpc::{Client, wire};
use tonic::Code;

mod support;

use support::{
    Called as _, Functions, PATIENCE, children_of, details, evaluate, eventually, is_running, noted, runner,
};

const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  \
                    metadata:\n    name: a\n";

#[tokio::test]
async fn a_builtin_function_needs_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let server = support::Server::start(runner().arg("--port=0").current_dir(folder.path()));
    let answer =
        evaluate(&server.client(), "ghcr.io/kptdev/krm-functions-catalog/no-op", LIST).await.unwrap();
    assert_eq!(answer.resource_list, LIST);
    server.wait_for_line("No cluster is configured: functions run without pods");
    server.wait_for_line("Functions are looked up in this order: builtin, exec");
}

#[tokio::test]
async fn an_exec_function_passes_bytes_through_unread() {
    let functions = Functions::new().with("echo", &["example.com/echo:v1"], "cat; echo a note >&2");
    let server = functions.serve(&[]);
    let input: Bytes = (0..=255).cycle().take(100_000).collect::<Vec<u8>>().into();
    let answer = evaluate(&server.client(), "example.com/echo:v1", input.clone()).await.unwrap();
    assert_eq!(answer.resource_list, input);
    assert_eq!(answer.log, "a note\n");
}

#[tokio::test]
async fn empty_output_is_an_answer() {
    let functions = Functions::new().with("silent", &["silent"], "exec cat >/dev/null");
    let answer = evaluate(&functions.serve(&[]).client(), "silent", LIST).await.unwrap();
    assert!(answer.resource_list.is_empty() && answer.log.is_empty());
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Newer {
        #[prost(bytes = "bytes", tag = "1")]
        resource_list: Bytes,
        #[prost(string, tag = "2")]
        image: String,
        #[prost(string, repeated, tag = "90")]
        new: Vec<String>,
    }
    let server = Functions::new().serve(&[]);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()))
        .unwrap()
        .connect_lazy();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let request = Newer { resource_list: LIST.into(), image: "no-op".into(), new: vec!["later".into()] };
    let codec = tonic_prost::ProstCodec::<Newer, wire::EvaluateFunctionResponse>::default();
    let path = "/evaluator.FunctionEvaluator/EvaluateFunction".parse().unwrap();
    let response = grpc.unary(tonic::Request::new(request), path, codec).await.unwrap();
    assert_eq!(response.into_inner().resource_list, LIST);
}

#[tokio::test]
async fn unknown_services_and_methods_are_told_in_gos_words() {
    let server = Functions::new().serve(&[]);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()))
        .unwrap()
        .connect_lazy();
    for (path, text) in [
        ("/some.Service/Do", "unknown service some.Service"),
        ("/evaluator.FunctionEvaluator/Do", "unknown method Do for service evaluator.FunctionEvaluator"),
        ("/grpc.health.v1.Health/List", "unknown method List for service grpc.health.v1.Health"),
    ] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec =
            tonic_prost::ProstCodec::<wire::EvaluateFunctionRequest, wire::EvaluateFunctionResponse>::default(
            );
        let request = tonic::Request::new(wire::EvaluateFunctionRequest::default());
        let status = grpc.unary(request, path.parse().unwrap(), codec).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unimplemented, text));
    }
}

#[tokio::test]
async fn an_unknown_image_is_not_found_and_the_details_say_who_was_asked() {
    let server = Functions::new().serve(&[]);
    let status = evaluate(&server.client(), "example.com/none:v1", LIST).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(status.message(), r#"function "example.com/none:v1" not found"#);
    let details = details(&status);
    assert_eq!(details.kind(), Kind::NotFound);
    assert_eq!(details.image, "example.com/none:v1");
    assert_eq!(details.evaluators, ["builtin", "exec"]);
}

#[tokio::test]
async fn what_is_no_image_is_an_invalid_argument() {
    let client = Functions::new().serve(&[]);
    for (image, reason) in
        [("", "it is empty"), ("UPPER:v1", "has a 'U'"), ("a b", "has a ' '"), ("x@sha256:1", "a digest is")]
    {
        let status = evaluate(&client.client(), image, LIST).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{image:?}");
        assert!(status.message().starts_with("could not parse reference: "), "{}", status.message());
        assert!(status.message().contains(reason), "{}", status.message());
        assert_eq!(details(&status).kind(), Kind::InvalidImage);
    }
}

#[tokio::test]
async fn images_are_looked_up_to_the_letter() {
    let digest = format!("example.com/fn@sha256:{}", "0a".repeat(32));
    let functions = Functions::new()
        .with("one", &["example.com/fn:v1", &digest], "cat >/dev/null; echo one")
        .with("two", &["example.com/fn:v2", "example.com/fn:v1"], "cat >/dev/null; echo two");
    let server = functions.serve(&[]);
    server.wait_for_line(r#"Ignoring duplicate image "example.com/fn:v1" (two)"#);
    let client = server.client();
    for (image, answer) in
        [("example.com/fn:v1", "one\n"), ("example.com/fn:v2", "two\n"), (&digest, "one\n")]
    {
        assert_eq!(evaluate(&client, image, "").await.unwrap().resource_list, answer, "{image}");
    }
    for other in ["example.com/fn", "example.com/fn:v3", "fn:v1"] {
        assert_eq!(evaluate(&client, other, "").await.unwrap_err().code(), Code::NotFound, "{other}");
    }
}

#[tokio::test]
async fn builtin_comes_before_exec_and_can_be_switched_off() {
    let functions = Functions::new().with("own", &["no-op"], "cat >/dev/null; echo own");
    for (flags, answer) in [(&[][..], LIST), (&["--disable-runtimes=builtin"], "own\n")] {
        let server = functions.serve(flags);
        assert_eq!(evaluate(&server.client(), "no-op", LIST).await.unwrap().resource_list, answer);
    }
}

#[tokio::test]
async fn the_order_is_the_same_at_every_start() {
    let functions = Functions::new().with("own", &["no-op"], "cat >/dev/null; echo own");
    for _ in 0..50 {
        let server = functions.serve(&[]);
        assert_eq!(evaluate(&server.client(), "no-op", LIST).await.unwrap().resource_list, LIST);
    }
}

#[tokio::test]
async fn without_any_runtime_nothing_is_found_and_the_service_lives() {
    let server = Functions::new().serve(&["--disable-runtimes= builtin, exec ,pod"]);
    server.wait_for_line("no runtime is enabled in function-runner");
    for _ in 0..3 {
        let status = evaluate(&server.client(), "no-op", LIST).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::NotFound, r#"function "no-op" not found"#));
        assert!(details(&status).evaluators.is_empty());
    }
}

#[tokio::test]
async fn a_failing_function_is_told_with_its_exit_code_and_standard_error() {
    let functions = Functions::new()
        .with("fails", &["fails"], "cat >/dev/null; echo 'größer ✗' >&2; exit 42")
        .with("dies", &["dies"], "kill -KILL $$");
    let client = functions.serve(&[]);
    let status = evaluate(&client.client(), "fails", LIST).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "Failed to execute function \"fails\": exit status 42 (größer ✗\n)");
    let told = details(&status);
    assert_eq!((told.kind(), told.exit_code, told.signal), (Kind::FunctionFailed, Some(42), None));
    assert_eq!((told.image.as_str(), told.stderr_bytes), ("fails", 13));

    let status = evaluate(&client.client(), "dies", LIST).await.unwrap_err();
    assert_eq!(status.message(), "Failed to execute function \"dies\": signal: killed ()");
    assert_eq!((details(&status).exit_code, details(&status).signal), (None, Some(9)));
}

#[tokio::test]
async fn a_failing_function_keeps_its_structured_results() {
    let output = "kind: ResourceList\nresults:\n- message: too few\n  severity: error\n  resourceRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: web\n  field:\n    path: spec.replicas\n  file:\n    path: web.yaml\n    index: 2\n";
    let functions = Functions::new().with("checks", &["checks"], "cat; echo see results >&2; exit 1");
    let status = evaluate(&functions.serve(&[]).client(), "checks", output).await.unwrap_err();
    assert_eq!(
        status.message(),
        "Failed to execute function \"checks\": exit status 1 (see results\n) with structured results: \
         [error] apps/v1/Deployment/web spec.replicas: too few"
    );
    let told = details(&status);
    assert_eq!(told.results_total, 1);
    let result = &told.results[0];
    assert_eq!((result.message.as_str(), result.severity.as_str()), ("too few", "error"));
    assert_eq!(
        (result.field_path.as_str(), result.file_path.as_str(), result.file_index),
        ("spec.replicas", "web.yaml", 2)
    );
    assert_eq!(result.resource_ref.as_ref().unwrap().kind, "Deployment");
}

#[tokio::test]
async fn much_standard_error_is_cut_in_the_middle_and_marked() {
    let functions = Functions::new().with(
        "chatty",
        &["chatty"],
        "cat >/dev/null; echo begin >&2; head -c 50000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1",
    );
    let server = functions.serve(&[]);
    let status = evaluate(&server.client(), "chatty", LIST).await.unwrap_err();
    let text = status.message();
    assert!(
        text.len() <= 32 * 1024 && text.contains("(begin\n") && text.ends_with("xend\n)"),
        "{}",
        text.len()
    );
    assert!(text.contains("bytes in all ...]"), "the cut is marked");
    assert_eq!(details(&status).stderr_bytes, 50_000_010);
    assert!(server.memory("VmHWM") < 60 * 1024, "{} KiB", server.memory("VmHWM"));
}

#[tokio::test]
async fn a_function_that_hangs_ends_at_the_deadline_with_all_its_group() {
    let functions = Functions::new().with(
        "hangs",
        &["hangs"],
        "(trap '' TERM; sleep 60) & echo $! > \"$(dirname \"$0\")/../grandchild\"; echo $$ > \"$(dirname \"$0\")/../child\"; wait",
    );
    let server = functions.serve(&[]);
    let begin = Instant::now();
    let deadline = Some(Duration::from_millis(200));
    let status = server.client().evaluate("hangs", LIST.into(), deadline).await.unwrap_err();
    let took = begin.elapsed();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(took < Duration::from_millis(300), "{took:?}");
    for name in ["child", "grandchild"] {
        let pid = noted(&functions.note(name)).await;
        eventually("the process is gone", || !is_running(pid)).await;
        assert!(begin.elapsed() < Duration::from_millis(1200), "{name} after {:?}", begin.elapsed());
    }
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn the_service_itself_answers_at_the_deadline() {
    // The client of this test never gives up by itself: the header is all there is.
    let functions = Functions::new().with("hangs", &["hangs"], "sleep 60");
    let server = functions.serve(&[]);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()))
        .unwrap()
        .connect_lazy();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let message = wire::EvaluateFunctionRequest { resource_list: LIST.into(), image: "hangs".into() };
    let mut request = tonic::Request::new(message);
    // Written by hand, so that the channel does not see a timeout of its own to keep.
    request.metadata_mut().insert("grpc-timeout", "200m".parse().unwrap());
    let codec = tonic_prost::ProstCodec::<_, wire::EvaluateFunctionResponse>::default();
    let path = "/evaluator.FunctionEvaluator/EvaluateFunction".parse().unwrap();
    let status = grpc.unary(request, path, codec).await.unwrap_err();
    // The channel keeps that header's time as well, and either may be first.
    if status.code() != Code::Cancelled {
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "function evaluation timed out for hangs: context deadline exceeded");
    }
    server.wait_for_line("code=DeadlineExceeded");
}

#[tokio::test]
async fn an_exec_timeout_ends_what_the_caller_would_wait_for() {
    let functions = Functions::new().with("hangs", &["hangs"], "sleep 60");
    let server = functions.serve(&["--exec-timeout=150ms"]);
    let status = evaluate(&server.client(), "hangs", LIST).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(
        status.message(),
        "function \"hangs\" ran for longer than 150ms (--exec-timeout) and was stopped"
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_function() {
    let functions =
        Functions::new().with("hangs", &["hangs"], "echo $$ > \"$(dirname \"$0\")/../pid\"; sleep 60 & wait");
    let server = functions.serve(&[]);
    let (client, note) = (server.client(), functions.note("pid"));
    let pid = tokio::select! {
        answer = evaluate(&client, "hangs", LIST) => panic!("{answer:?}"),
        pid = noted(&note) => pid,
    };
    assert!(eventually("the process is gone", || !is_running(pid)).await < Duration::from_secs(1));
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn a_thousand_cancelled_calls_do_not_break_the_connection() {
    let functions = Functions::new().with("hangs", &["hangs"], "sleep 60").with("echo", &["echo"], "cat");
    let server = functions.serve(&[]);
    let client = server.client();
    evaluate(&client, "echo", LIST).await.unwrap();
    let connections = || {
        fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .unwrap()
            .flatten()
            .filter(|entry| {
                fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
            })
            .count()
    };
    let before = connections();
    for _ in 0..10 {
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    tokio::time::timeout(Duration::from_millis(20), evaluate(&client, "hangs", LIST)).await
                })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap().is_err(), "nobody answers within 20 ms");
        }
    }
    evaluate(&client, "echo", LIST).await.unwrap();
    assert_eq!(connections(), before, "it is still the same connection");
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn output_over_the_limit_is_refused_and_memory_stays_bounded() {
    let functions = Functions::new().with("floods", &["floods"], "exec cat /dev/zero").with(
        "much",
        &["much"],
        "exec head -c 50000000 /dev/zero",
    );
    let server = functions.serve(&[]);
    for image in ["floods", "much"] {
        let status = evaluate(&server.client(), image, LIST).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let expected = format!(
            "function \"{image}\" wrote more than 6291456 bytes and was stopped; raise --max-request-body-size of function-runner, and of Porch's server to the same value"
        );
        assert_eq!(status.message(), expected);
    }
    assert!(server.memory("VmHWM") < 60 * 1024, "{} KiB", server.memory("VmHWM"));
}

#[tokio::test]
async fn messages_of_the_limit_pass_and_one_byte_more_does_not() {
    const LIMIT: usize = 100_000;
    let functions =
        Functions::new().with("echo", &["echo"], "cat").with("pads", &["pads"], "cat; printf %20s");
    let server = functions.serve(&[&format!("--max-request-body-size={LIMIT}")]);
    let client = Client::new(&server.address(), 64 << 20).unwrap();
    // A message is the list, its frame of one tag and three bytes of length, and the image with its two.
    let request = |size: usize| Bytes::from(vec![b'x'; size - 4 - 2 - "echo".len()]);
    assert!(evaluate(&client, "echo", request(LIMIT)).await.is_ok());
    let status = evaluate(&client, "echo", request(LIMIT + 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.message(),
        "grpc: received message larger than max (100001 vs. 100000); raise --max-request-body-size of \
         function-runner, and of Porch's server to the same value"
    );
    // The answer is longer than the request by what the function adds.
    let answer = |size: usize| Bytes::from(vec![b'x'; size - 4 - 20]);
    assert!(evaluate(&client, "pads", answer(LIMIT)).await.is_ok());
    let status = evaluate(&client, "pads", answer(LIMIT + 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{}", status.message());
    let expected =
        "grpc: trying to send message larger than max (100001 vs. 100000); raise --max-request-body-size";
    assert!(status.message().starts_with(expected), "{}", status.message());
}

#[tokio::test]
async fn the_clients_own_limit_is_told_with_the_flag_of_the_other_side() {
    let functions = Functions::new().with("many", &["many"], "exec head -c 5000 /dev/zero");
    let server = functions.serve(&[]);
    let client = Client::new(&server.address(), 4096).unwrap();
    for (input, text) in [
        (Bytes::from(vec![0; 5000]), "trying to send message larger than max (5009 vs. 4096); "),
        (Bytes::new(), "grpc: received message larger than max (5003 vs. 4096); "),
    ] {
        let status = evaluate(&client, "many", input).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{}", status.message());
        assert!(status.message().starts_with(text), "{}", status.message());
        assert!(status.message().contains("--max-request-body-size of function-runner"));
    }
}

#[tokio::test]
async fn a_log_that_does_not_fit_gives_way_to_the_resources() {
    let functions = Functions::new().with("both", &["both"], "cat; head -c 3000 /dev/zero | tr '\\0' x >&2");
    let server = functions.serve(&["--max-request-body-size=8000"]);
    let answer = evaluate(&server.client(), "both", vec![b'y'; 6000]).await.unwrap();
    assert_eq!(answer.resource_list.len(), 6000);
    assert_eq!(answer.log, "[the log was left out: it does not fit into the message limit]\n");
}

#[tokio::test]
async fn programs_that_cannot_run_are_named_with_path_and_entry() {
    let functions = Functions::new()
        .with_entry("missing", &["missing"])
        .with("plain", &["plain"], "")
        .with_entry("../outside", &["outside"])
        .with_entry("linked", &["linked"]);
    fs::set_permissions(functions.path("plain"), fs::Permissions::from_mode(0o644)).unwrap();
    symlink("/bin/cat", functions.path("linked")).unwrap();
    let outside = functions.folder().join("outside");
    fs::write(&outside, "#!/bin/sh\necho escaped\n").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o755)).unwrap();
    let server = functions.serve(&[]);
    let folder = functions.folder().join("functions").display().to_string();
    let config = functions.config_file().display().to_string();
    for (image, name, reason) in [
        ("missing", "missing", format!("fork/exec {folder}/missing: no such file or directory")),
        ("plain", "plain", format!("fork/exec {folder}/plain: permission denied")),
        ("outside", "../outside", format!("{} is outside of --functions ({folder})", outside.display())),
        ("linked", "linked", format!("{folder}/linked is outside of --functions ({folder})")),
    ] {
        let status = evaluate(&server.client(), image, LIST).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        let expected =
            format!("Failed to execute function \"{image}\": {reason} (); entry \"{name}\" of {config}");
        assert_eq!(status.message(), expected);
        assert_eq!(details(&status).kind(), Kind::NotStarted);
        server.wait_for_line(&format!("function \"{name}\": "));
    }
}

#[tokio::test]
async fn a_changed_file_is_read_again_and_a_broken_one_leaves_the_table() {
    let functions = Functions::new().with("one", &["fn:v1"], "cat >/dev/null; echo one");
    let server = functions.serve(&[]);
    let client = server.client();
    assert_eq!(evaluate(&client, "fn:v1", "").await.unwrap().resource_list, "one\n");

    let functions = functions.with("two", &["fn:v2"], "cat >/dev/null; echo two");
    server.wait_for_line("Reloaded the exec functions");
    assert_eq!(evaluate(&client, "fn:v2", "").await.unwrap().resource_list, "two\n");

    fs::write(functions.config_file(), "functions: [\n").unwrap();
    let line = server.wait_for_line("the exec functions stay as they were");
    assert!(line.contains("failed to parse configuration file") && line.contains("line "), "{line}");
    assert_eq!(evaluate(&client, "fn:v1", "").await.unwrap().resource_list, "one\n");

    functions.write("one", "cat >/dev/null; echo replaced");
    assert_eq!(evaluate(&client, "fn:v1", "").await.unwrap().resource_list, "replaced\n");
}

#[tokio::test]
async fn a_program_may_be_replaced_while_it_runs() {
    let functions = Functions::new().with(
        "slow",
        &["slow"],
        "cat >/dev/null; echo $$ > \"$(dirname \"$0\")/../pid\"; sleep 0.3; echo old",
    );
    let server = functions.serve(&[]);
    let client = server.client();
    let first = tokio::spawn({
        let client = client.clone();
        async move { evaluate(&client, "slow", "").await.unwrap() }
    });
    noted(&functions.note("pid")).await;
    functions.write("slow", "cat >/dev/null; echo new");
    assert_eq!(evaluate(&client, "slow", "").await.unwrap().resource_list, "new\n");
    assert_eq!(first.await.unwrap().resource_list, "old\n");
}

#[tokio::test]
async fn a_function_sees_no_foreign_variables_unless_the_operator_says_so() {
    let functions = Functions::new().with("env", &["env"], "cat >/dev/null; env");
    for (flags, seen) in [(&[][..], false), (&["--exec-inherit-environment"], true)] {
        let mut command = functions.command(flags);
        let server = support::Server::start(command.env("CANARY", "secret"));
        let answer = evaluate(&server.client(), "env", "").await.unwrap();
        let text = String::from_utf8(answer.resource_list.to_vec()).unwrap();
        assert_eq!(text.contains("CANARY=secret"), seen, "{text}");
        assert!(text.contains("PATH="), "{text}");
    }
    assert!(env::var_os("CANARY").is_none());
}

#[tokio::test]
async fn parallel_calls_keep_to_the_limit_and_leave_nothing() {
    let functions = Functions::new().with(
        "counts",
        &["counts"],
        "cat >/dev/null; cd \"$(dirname \"$0\")/..\"; mkdir run.$$; ls -d run.* | wc -l; sleep 0.02; rmdir run.$$",
    );
    let server = functions.serve(&["--max-concurrent-executions=5"]);
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let client = server.client();
            tokio::spawn(async move { evaluate(&client, "counts", "").await.unwrap().resource_list })
        })
        .collect();
    let mut most = 0;
    for call in calls {
        let seen: usize = String::from_utf8_lossy(&call.await.unwrap()).trim().parse().unwrap();
        most = most.max(seen);
    }
    assert!((2..=5).contains(&most), "{most} at once");
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn orphans_of_functions_are_buried() {
    // A double fork into a session of its own: nobody but the service can bury this one.
    let functions = Functions::new().with(
        "forks",
        &["forks"],
        "cat >/dev/null; (setsid sleep 0.05 >/dev/null 2>&1 </dev/null &) ; echo",
    );
    let server = functions.serve(&[]);
    for _ in 0..20 {
        evaluate(&server.client(), "forks", "").await.unwrap();
    }
    eventually("every orphan is buried", || children_of(server.pid()).is_empty()).await;
}

#[tokio::test]
async fn a_client_finds_a_service_that_came_back() {
    let functions = Functions::new().with("echo", &["echo"], "cat");
    let mut first = functions.serve(&[]);
    let client = first.client();
    evaluate(&client, "echo", LIST).await.unwrap();
    first.terminate();
    first.wait();
    let status = evaluate(&client, "echo", LIST).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let _second = functions.serve(&[&format!("--port={}", first.port)]);
    let begin = Instant::now();
    while evaluate(&client, "echo", LIST).await.is_err() {
        assert!(begin.elapsed() < PATIENCE, "the client never came back");
    }
}

#[tokio::test]
async fn a_compressed_request_is_understood() {
    let functions = Functions::new().with("echo", &["echo"], "cat");
    let server = functions.serve(&["--max-request-body-size=100000"]);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address()))
        .unwrap()
        .connect_lazy();
    let mut client =
        wire::FunctionEvaluatorClient::new(channel).send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let request =
        |size| wire::EvaluateFunctionRequest { resource_list: vec![b'x'; size].into(), image: "echo".into() };
    let response = client.evaluate_function(request(90_000)).await.unwrap().into_inner();
    assert_eq!(response.resource_list.len(), 90_000);
    // What is small on the wire and large in memory.
    let status = client.evaluate_function(request(50_000_000)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("--max-request-body-size"), "{}", status.message());
    assert!(server.memory("VmHWM") < 60 * 1024, "{} KiB", server.memory("VmHWM"));
}

#[tokio::test]
async fn no_content_reaches_the_log_at_any_level() {
    let functions = Functions::new().with("echo", &["echo"], "cat; echo CANARY-stderr >&2").with(
        "fails",
        &["fails"],
        "cat; echo CANARY-stderr >&2; exit 1",
    );
    let server = functions.serve(&["--log-level=5"]);
    let input = "kind: ResourceList\nitems:\n- data: CANARY-data\nresults:\n- message: CANARY-result\n";
    evaluate(&server.client(), "echo", input).await.unwrap();
    evaluate(&server.client(), "fails", input).await.unwrap_err();
    server.wait_for_line("code=Internal");
    assert!(!server.log().iter().any(|line| line.contains("CANARY")), "{:#?}", server.log());
}
