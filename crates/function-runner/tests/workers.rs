//! Built-in functions in worker processes of a real service: what a call does to itself, and not to others.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::time::{Duration, Instant};

use loggia_grpc::Client;
use rustix::process::{Pid, Signal, kill_process};
use tonic::Code;

mod support;

use support::{Called as _, Functions, Server, evaluate, eventually, is_running, workers_of};

const LIST: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n\
                    - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

fn with_config(data: &str, items: &str) -> String {
    format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  \
         metadata: {{name: c}}\n  data:\n{data}items:\n{items}"
    )
}

fn starlark(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("      {line}\n")).collect();
    with_config(
        &format!("    source: |\n{source}"),
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
    )
}

/// A value of 100 kB that is replaced by 2.5 GB of itself.
fn bomb() -> String {
    let data = format!("    by-value-regex: '^(A+)$'\n    put-value: '{}'\n", "${1}".repeat(25_000));
    let item = format!(
        "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{k: {}}}}}\n",
        "A".repeat(100_000)
    );
    with_config(&data, &item)
}

const ENDLESS: &str = "while True: pass";

fn serve(flags: &[&str]) -> (Functions, Server) {
    let functions = Functions::new();
    let server = functions.serve(flags);
    (functions, server)
}

/// Workers that compute now.
fn busy(server: &Server) -> Vec<u32> {
    let computes = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
            || threads_run(*pid)
    };
    workers_of(server.pid()).into_iter().filter(computes).collect()
}

fn threads_run(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .any(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
}

async fn answers(client: &Client) {
    let begin = Instant::now();
    let answer = evaluate(client, "no-op", LIST).await.unwrap();
    assert!(String::from_utf8_lossy(&answer.resource_list).contains("name: a"));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_call_that_needs_gigabytes_takes_nothing_along() {
    let (_functions, server) = serve(&[]);
    let client = server.client();
    let honest: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { evaluate(&client, "set-namespace", honest()).await })
        })
        .collect();
    let mut hostile = Vec::new();
    for (image, list) in [("search-replace", bomb()), ("starlark", starlark("x = 'a' * 2000000000"))] {
        let client = client.clone();
        hostile.push(tokio::spawn(async move { evaluate(&client, image, list).await }));
    }
    for call in hostile {
        let status = call.await.unwrap().unwrap_err();
        assert_ne!(status.code(), Code::Unavailable, "{status:?}");
        assert!(!status.message().is_empty(), "{status:?}");
    }
    for call in honest {
        let answer = call.await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&answer.resource_list).contains("namespace: prod"));
    }
    assert!(server.memory("VmHWM") < 120 * 1024, "{} KiB", server.memory("VmHWM"));
}

fn honest() -> String {
    with_config("    namespace: prod\n", "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
}

#[tokio::test]
async fn memory_beyond_the_flag_is_refused_by_name() {
    let (_functions, server) = serve(&["--builtin-memory=20000000"]);
    let client = server.client();
    let items: String = (0..40_000)
        .map(|item| format!("- {{apiVersion: v1, kind: X, metadata: {{name: a{item}}}}}\n"))
        .collect();
    let list = format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{items}");
    let status = evaluate(&client, "no-op", list).await.map(drop).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(
        status
            .message()
            .contains("needed more than 19 MiB of memory and was stopped; --builtin-memory allows more"),
        "{status:?}"
    );
    answers(&client).await;
}

#[tokio::test]
async fn a_call_ends_with_its_deadline_its_caller_and_the_flag() {
    let (_functions, server) = serve(&["--builtin-timeout=1s"]);
    let client = server.client();
    // The caller's deadline.
    let deadline = Some(Duration::from_millis(600));
    let status = client.evaluate("starlark", starlark(ENDLESS).into(), deadline).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(eventually("nothing computes", || busy(&server).is_empty()).await < Duration::from_secs(1));
    // The flag.
    let status = client.evaluate("starlark", starlark(ENDLESS).into(), None).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(
        status.message().contains("ran for longer than 1s and was stopped; --builtin-timeout allows more"),
        "{status:?}"
    );
    assert!(eventually("nothing computes", || busy(&server).is_empty()).await < Duration::from_secs(1));
    drop(server);
    // The caller goes away.
    let (_functions, server) = serve(&[]);
    let client = server.client();
    let call = tokio::spawn(async move { client.evaluate("starlark", starlark(ENDLESS).into(), None).await });
    eventually("it computes", || !busy(&server).is_empty()).await;
    call.abort();
    let _ = call.await;
    assert!(eventually("nothing computes", || busy(&server).is_empty()).await < Duration::from_secs(1));
}

#[tokio::test]
async fn cheap_calls_are_not_held_up_by_endless_ones() {
    let (_functions, server) = serve(&[]);
    let client = server.client();
    let endless: Vec<_> = (0..40)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let deadline = Some(Duration::from_secs(8));
                client.evaluate("starlark", starlark(ENDLESS).into(), deadline).await
            })
        })
        .collect();
    eventually("they compute", || !busy(&server).is_empty()).await;
    for _ in 0..20 {
        answers(&client).await;
    }
    for call in endless {
        assert_eq!(call.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    }
    eventually("nothing computes", || busy(&server).is_empty()).await;
    answers(&client).await;
}

#[tokio::test]
async fn workers_that_are_killed_from_outside_cost_no_call() {
    let (_functions, server) = serve(&[]);
    let client = server.client();
    for _ in 0..5 {
        answers(&client).await;
        for worker in workers_of(server.pid()) {
            let _ = kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL);
        }
        answers(&client).await;
    }
    eventually("the dead are buried", || workers_of(server.pid()).into_iter().all(is_running)).await;
}

#[tokio::test]
async fn a_worker_can_do_nothing_but_compute() {
    let (_functions, server) = serve(&["--builtin-memory=300000000"]);
    answers(&server.client()).await;
    // One that has just been started still has to give up what it does not need.
    let confined = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains("\nSeccomp:\t2\n"))
    };
    eventually("a worker is confined", || workers_of(server.pid()).iter().any(confined)).await;
    let worker = workers_of(server.pid()).into_iter().find(confined).unwrap();
    let read = |file: &str| fs::read_to_string(format!("/proc/{worker}/{file}")).unwrap();
    let status = read("status");
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((figure("Seccomp:"), figure("NoNewPrivs:")), ("2".to_owned(), "1".to_owned()));
    let limits = read("limits");
    for (name, limit) in [("Max core file size", "0"), ("Max file size", "0"), ("Max open files", "32")] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line[26..].split_whitespace().next(), Some(limit), "{line}");
    }
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert!(!data.contains("unlimited"), "{data}");
    // Who is not root cannot look: the process is not dumpable.
    let denied = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    match fs::read_dir(format!("/proc/{worker}/fd")) {
        Ok(descriptors) => assert_eq!(descriptors.count(), 3),
        Err(error) => denied(error),
    }
    match fs::read_to_string(format!("/proc/{worker}/environ")) {
        Ok(variables) => assert_eq!(variables, ""),
        Err(error) => denied(error),
    }
}

#[tokio::test]
async fn a_stop_leaves_no_worker_and_no_endless_function_behind() {
    let (_functions, mut server) = serve(&["--drain-timeout=1s"]);
    let client = server.client();
    let call = tokio::spawn(async move { evaluate(&client, "starlark", starlark(ENDLESS)).await });
    eventually("it computes", || !busy(&server).is_empty()).await;
    let workers = workers_of(server.pid());
    let begin = Instant::now();
    server.terminate();
    assert!(call.await.unwrap().is_err());
    assert_eq!(server.wait().code(), Some(0), "{:#?}", server.log());
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    eventually("all workers are gone", || !workers.iter().any(|worker| is_running(*worker))).await;
}

#[tokio::test]
async fn workers_die_with_a_service_that_is_killed() {
    let (_functions, mut server) = serve(&[]);
    answers(&server.client()).await;
    let workers = workers_of(server.pid());
    assert!(!workers.is_empty());
    server.signal(Signal::KILL);
    server.wait();
    eventually("all workers are gone", || !workers.iter().any(|worker| is_running(*worker))).await;
}

#[tokio::test]
async fn neither_descriptors_nor_processes_grow_with_the_calls() {
    let (_functions, server) = serve(&[]);
    let client = server.client();
    let round = async || {
        let calls: Vec<_> = (0..30)
            .map(|call| {
                let client = client.clone();
                let list = if call % 10 == 0 { starlark("fail('no')") } else { honest() };
                let image = if call % 10 == 0 { "starlark" } else { "set-namespace" };
                let deadline = Duration::from_millis(if call % 7 == 0 { 1 } else { 20_000 });
                tokio::spawn(async move { client.evaluate(image, list.into(), Some(deadline)).await })
            })
            .collect();
        for call in calls {
            let _ = call.await.unwrap();
        }
    };
    round().await;
    let before = server.descriptors();
    for _ in 0..5 {
        round().await;
    }
    let most = 2 * std::thread::available_parallelism().unwrap().get() * 2;
    eventually("few workers are left", || workers_of(server.pid()).len() <= most).await;
    eventually("descriptors are closed", || server.descriptors() <= before + most).await;
}
