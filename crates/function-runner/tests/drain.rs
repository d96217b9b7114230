//! Stopping: what is in flight is answered, what comes later is refused, and the exit code is 0.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::time::{Duration, Instant};

use tonic::Code;

mod support;

use support::{Called as _, Functions, PATIENCE, Server, children_of, evaluate, eventually};

/// Starts so many calls of one function and waits until all of them run.
async fn calls(
    server: &Server,
    count: usize,
) -> Vec<tokio::task::JoinHandle<Result<loggia_grpc::Answer, tonic::Status>>> {
    let client = server.client();
    let calls = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { evaluate(&client, "slow", "x").await })
        })
        .collect();
    eventually("all calls run", || children_of(server.pid()).len() >= count).await;
    calls
}

fn slow(time: &str) -> Functions {
    Functions::new().with("slow", &["slow"], &format!("sleep {time}; cat"))
}

#[tokio::test]
async fn a_stop_answers_every_call_in_flight_each_time() {
    // All of them run until they are let go, however long it takes to start them.
    let functions = Functions::new().with(
        "slow",
        &["slow"],
        "while [ ! -e \"$(dirname \"$0\")/../go\" ]; do sleep 0.05; done; cat",
    );
    let go = functions.note("go");
    // `make soak` asks for more.
    let rounds = std::env::var("LOGGIA_DRAIN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    for round in 0..rounds {
        let mut server = functions.serve(&["--max-concurrent-executions=20"]);
        let calls = calls(&server, 20).await;
        server.terminate();
        server.wait_for_line("Draining");
        std::fs::write(&go, "").unwrap();
        for call in calls {
            let answer = call.await.unwrap();
            assert_eq!(answer.unwrap_or_else(|status| panic!("round {round}: {status}")).resource_list, "x");
        }
        assert_eq!(server.wait().code(), Some(0), "round {round}: {:#?}", server.log());
        std::fs::remove_file(&go).unwrap();
    }
}

#[tokio::test]
async fn calls_that_come_during_the_drain_are_refused() {
    let functions = slow("0.6");
    let mut server = functions.serve(&[]);
    let old = server.client();
    let running = calls(&server, 2).await;
    server.terminate();
    server.wait_for_line("Draining");
    for client in [server.client(), old] {
        let status = evaluate(&client, "slow", "x").await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "the function evaluator is shutting down; try again");
    }
    for call in running {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test]
async fn after_the_drain_timeout_the_rest_is_given_up_and_nothing_stays_behind() {
    let functions = slow("60");
    let mut server = functions.serve(&["--drain-timeout=200ms"]);
    let running = calls(&server, 3).await;
    let children: Vec<_> = children_of(server.pid()).into_iter().map(|(pid, _)| pid).collect();
    let begin = Instant::now();
    server.terminate();
    for call in running {
        let status = call.await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "the function evaluator stopped before the function ended; try again");
    }
    assert_eq!(server.wait().code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    server.wait_for_line("Gave up 3 calls that did not end in time");
    assert!(children.iter().all(|pid| !support::is_running(*pid)), "no function outlives the service");
}

#[tokio::test]
async fn an_idle_service_stops_at_once() {
    let functions = slow("0");
    let mut server = functions.serve(&[]);
    evaluate(&server.client(), "slow", "x").await.unwrap();
    let begin = Instant::now();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_second_signal_exits_at_once() {
    let functions = slow("60");
    let mut server = functions.serve(&[]);
    let _running = calls(&server, 1).await;
    server.terminate();
    server.wait_for_line("Draining");
    let begin = Instant::now();
    server.signal(rustix::process::Signal::INT);
    assert_eq!(server.wait().code(), Some(1));
    assert!(begin.elapsed() < PATIENCE / 20, "{:?}", begin.elapsed());
}
