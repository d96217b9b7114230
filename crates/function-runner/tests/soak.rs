//! Many calls at once, good and bad ones mixed: every one is answered or cancelled, and nothing grows.
//!
//! `make test` takes seconds for it; `make soak` asks for more by `LOGGIA_SOAK_CALLS` and
//! `LOGGIA_SOAK_RUNS`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loggia_grpc::Client;
use tonic::Code;

mod support;

use support::{Called as _, Functions, Server, children_of, evaluate, eventually};

const CONCURRENCY: usize = 64;

/// What a call is meant to meet with.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    Fails,
    IsSlow,
    Hangs,
    Vanishes,
    Floods,
}

#[derive(Debug, Default)]
struct Tally {
    answered: AtomicUsize,
    failed: AtomicUsize,
    timed_out: AtomicUsize,
    cancelled: AtomicUsize,
}

/// What a server holds that must not grow.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    resident: u64,
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Seven of ten calls are ordinary ones.
fn fate(call: usize) -> Fate {
    match call.wrapping_mul(2_654_435_761) >> 7 & 0x1f {
        0..=2 => Fate::Fails,
        3..=5 => Fate::IsSlow,
        6 => Fate::Hangs,
        7 => Fate::Vanishes,
        8 => Fate::Floods,
        _ => Fate::Succeeds,
    }
}

async fn call(client: &Client, number: usize, tally: &Tally) {
    let input = Bytes::from(format!("call: {number}\n").repeat(200));
    let count = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::Relaxed);
    match fate(number) {
        Fate::Succeeds => {
            assert_eq!(evaluate(client, "echo", input.clone()).await.unwrap().resource_list, input);
            count(&tally.answered);
        }
        Fate::IsSlow => {
            assert_eq!(evaluate(client, "slow", input.clone()).await.unwrap().resource_list, input);
            count(&tally.answered);
        }
        Fate::Fails => {
            let status = evaluate(client, "fails", input).await.unwrap_err();
            assert_eq!(status.message(), "Failed to execute function \"fails\": exit status 1 (no\n)");
            count(&tally.failed);
        }
        Fate::Floods => {
            assert_eq!(evaluate(client, "floods", input).await.unwrap_err().code(), Code::ResourceExhausted);
            count(&tally.failed);
        }
        Fate::Hangs => {
            let deadline = Some(Duration::from_millis(100));
            let status = client.evaluate("hangs", input, deadline).await.unwrap_err();
            assert_eq!(status.code(), Code::DeadlineExceeded);
            count(&tally.timed_out);
        }
        Fate::Vanishes => {
            let patience = Duration::from_millis(5 + number as u64 % 40);
            let answer = tokio::time::timeout(patience, evaluate(client, "hangs", input)).await;
            assert!(answer.is_err(), "a function that hangs has no answer");
            count(&tally.cancelled);
        }
    }
}

/// Makes calls, so many at a time.
async fn drive<F>(calls: std::ops::Range<usize>, client: &Client, make: impl Fn(Client, usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = tokio::task::JoinSet::new();
    for number in calls {
        if tasks.len() == CONCURRENCY {
            tasks.join_next().await.unwrap().unwrap();
        }
        tasks.spawn(make(client.clone(), number));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn holdings(server: &Server) -> Holdings {
    eventually("no child is left", || children_of(server.pid()).is_empty()).await;
    Holdings { descriptors: server.descriptors(), resident: server.memory("VmRSS") }
}

fn compare(before: Holdings, after: Holdings) {
    // The workers of built-in functions come and go, and the service holds a few descriptors for each.
    let more = after.descriptors.saturating_sub(before.descriptors);
    assert!(more < 8, "descriptors: {} before, {} after", before.descriptors, after.descriptors);
    let growth = after.resident.saturating_sub(before.resident);
    assert!(growth < 12 * 1024, "resident memory grew from {} to {} KiB", before.resident, after.resident);
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_calls_are_all_answered_and_leave_nothing_behind() {
    let functions = Functions::new()
        .with("echo", &["echo"], "exec cat")
        .with("slow", &["slow"], "sleep 0.05; exec cat")
        .with("fails", &["fails"], "cat >/dev/null; echo no >&2; exit 1")
        .with("hangs", &["hangs"], "(trap '' TERM; sleep 60) & wait")
        .with("floods", &["floods"], "exec cat /dev/zero");
    let server = functions.serve(&["--max-concurrent-executions=32", "--log-level=0"]);
    let total = setting("LOGGIA_SOAK_CALLS", 1500);
    let client = server.client();
    let tally = Arc::new(Tally::default());
    let make = |client: Client, number| {
        let tally = Arc::clone(&tally);
        async move { call(&client, number, &tally).await }
    };
    let begin = Instant::now();
    let warm = total / 3;
    drive(0..warm, &client, make).await;
    let before = holdings(&server).await;
    drive(warm..total, &client, make).await;
    let after = holdings(&server).await;
    println!("{total} mixed calls in {:.1?}: {tally:?}; {before:?} -> {after:?}", begin.elapsed());
    let Tally { answered, failed, timed_out, cancelled } = &*tally;
    let sum: usize =
        [answered, failed, timed_out, cancelled].map(|count| count.load(Ordering::Relaxed)).iter().sum();
    assert_eq!(sum, total, "every call has an end");
    compare(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_leave_nothing_behind() {
    let functions = Functions::new().with_entry("true", &["true"]);
    std::fs::copy("/bin/true", functions.path("true")).unwrap();
    let server = functions.serve(&["--log-level=0", "--disable-runtimes=builtin,pod"]);
    let total = setting("LOGGIA_SOAK_RUNS", 2000);
    let client = server.client();
    let make = |client: Client, _| async move {
        evaluate(&client, "true", "x").await.unwrap();
    };
    let begin = Instant::now();
    let warm = total / 10;
    drive(0..warm, &client, make).await;
    let before = holdings(&server).await;
    drive(warm..total, &client, make).await;
    let after = holdings(&server).await;
    println!("{total} runs in {:.1?}; {before:?} -> {after:?}", begin.elapsed());
    compare(before, after);
}
