//! A function with very many results, and callers that take too much: probes are answered throughout.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::time::{Duration, Instant};

use tonic::Code;

mod support;

use support::{Called as _, Server, details, wrapper};

#[tokio::test]
async fn very_many_results_do_not_keep_probes_waiting() {
    for (count, exit, line) in
        [(60_000, 1, "- {message: bad, severity: error}"), (600_000, 1, "- {}"), (60_000, 0, "- {}")]
    {
        let script = format!(
            "cat > /dev/null; printf 'kind: ResourceList\\nitems: []\\nresults:\\n'; yes -- '{line}' | head -n {count}; exit {exit}"
        );
        let server = Server::start(&mut wrapper(&[], &["sh", "-c", &script]));
        let client = server.client();
        let call =
            tokio::spawn(async move { client.evaluate("x:v1", "kind: ResourceList\n".into(), None).await });
        let mut slowest = Duration::ZERO;
        while !call.is_finished() {
            let begin = Instant::now();
            assert!(server.client().is_serving().await.unwrap());
            slowest = slowest.max(begin.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(slowest < Duration::from_secs(1), "{count} results: health took {slowest:?}");
        let answer = call.await.unwrap();
        if exit == 0 {
            assert!(answer.unwrap().resource_list.len() > 300_000);
            continue;
        }
        let status = answer.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status:?}");
        assert_eq!(details(&status).results_total, count, "{:.300}", status.message());
        assert!(status.message().len() <= 32 * 1024);
    }
}

#[tokio::test]
async fn a_call_without_a_deadline_is_ended_by_the_servers_own() {
    let server =
        Server::start(&mut wrapper(&["--call-timeout=500ms", "--memory-budget=20000000"], &["sleep", "60"]));
    let status = server.client().evaluate("x:v1", "kind: ResourceList\n".into(), None).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(status.message().contains("500ms (--call-timeout)"), "{status:?}");
}
