//! Callers that take too much: half-sent messages, lying lengths, floods, peers that do not read. Whatever they do,
//! memory stays within its limit and comes back, and health answers within a second.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::Builder;
use loggia_grpc::Limits;
use tonic::Code;

mod support;

use support::{CHECK, EVALUATE, MESSAGE, MIB, begin, evaluation, eventually, finish, framed, limits, start};

#[tokio::test]
async fn half_sent_messages_take_no_more_memory_than_there_is_and_give_it_back() {
    let server = start(limits(48 * MIB));
    let (mut requests, driver) = server.connect().await;
    let mut calls = Vec::new();
    for _ in 0..80 {
        let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
        body.send_data(framed(MESSAGE as u32, MESSAGE - 2048), false).unwrap();
        calls.push((response, body));
    }
    eventually("others wait", || server.memory.usage().waiting >= 12).await;
    eventually("one connection does not take all places", || server.memory.usage().refused > 30).await;
    let usage = server.memory.usage();
    assert!(usage.used > 16 * MIB && usage.used <= usage.limit, "{usage:?}");
    assert!(server.is_healthy().await);
    // A small call has memory of its own; a large one waits behind the others.
    server.client().evaluate("echo", "x".into(), Some(Duration::from_secs(5))).await.unwrap();
    let large = Bytes::from(vec![b'x'; MIB]);
    let large = server.client().evaluate("echo", large, Some(Duration::from_millis(700))).await.unwrap_err();
    assert_eq!(large.code(), Code::ResourceExhausted, "it waits behind them: {large:?}");
    assert!(large.message().contains("--memory-budget"), "{large:?}");
    driver.abort();
    drop((calls, requests));
    server.memory_returns().await;
    server.client().evaluate("echo", "x".into(), None).await.unwrap();
}

#[tokio::test]
async fn a_message_that_stands_still_gives_way_to_others() {
    let server = start(limits(12 * MIB));
    let (mut requests, _driver) = server.connect().await;
    let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
    body.send_data(framed(3 * MIB as u32, 100_000), false).unwrap();
    eventually("it has memory", || server.memory.usage().used > 5 * MIB).await;
    let client = server.client();
    let call = client.evaluate("echo", vec![b'x'; 2 * MIB].into(), Some(Duration::from_secs(20)));
    let (answer, other) = tokio::join!(async { support::answer(response.await.unwrap()).await }, call);
    let (_, code, text) = answer.unwrap();
    assert_eq!(code, Code::ResourceExhausted, "{text}");
    assert!(text.contains("did not go on for 5s while others waited for memory (--memory-budget)"), "{text}");
    other.unwrap();
    server.memory_returns().await;
}

#[tokio::test]
async fn calls_that_wait_get_their_turn_in_order() {
    // All on one connection: those that wait must not keep the one from arriving that has memory.
    let server = start(limits(12 * MIB));
    let (mut requests, _driver) = server.connect().await;
    let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
    let first = evaluation("echo", 3 * MIB);
    body.send_data(first.slice(..100_000), false).unwrap();
    eventually("the first has memory", || server.memory.usage().used > 5 * MIB).await;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..10 {
        let call = begin(&mut requests, EVALUATE, &[]).await;
        let sender = sender.clone();
        tokio::spawn(async move {
            let (_, code, text) = finish(call, evaluation("echo", 3 * MIB - number)).await.unwrap();
            assert_eq!(code, Code::Ok, "{text}");
            sender.send(number).unwrap();
        });
        eventually("it waits", || server.memory.usage().waiting == number + 1).await;
    }
    body.send_data(first.slice(100_000..), true).unwrap();
    assert_eq!(support::answer(response.await.unwrap()).await.unwrap().1, Code::Ok);
    for number in 0..10 {
        assert_eq!(order.recv().await, Some(number));
    }
    server.memory_returns().await;
}

#[tokio::test]
async fn a_length_beyond_the_limit_is_refused_before_anything_else_is_read() {
    let server = start(limits(32 * MIB));
    let (mut requests, _driver) = server.connect().await;
    for announced in [MESSAGE as u32 + 1, u32::MAX] {
        let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
        // The prefix alone, in pieces, and the call is left open.
        for byte in framed(announced, 0) {
            body.send_data(Bytes::from(vec![byte]), false).unwrap();
        }
        let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
        assert_eq!(code, Code::ResourceExhausted);
        assert!(text.contains(&format!("({announced} vs. {MESSAGE})")), "{text}");
        assert!(text.contains("--max-request-body-size"), "{text}");
    }
    server.memory_returns().await;
}

#[tokio::test]
async fn a_message_must_arrive_in_time_or_by_the_callers_deadline() {
    let server = start(Limits { request_time: Duration::from_millis(400), ..limits(32 * MIB) });
    let (mut requests, _driver) = server.connect().await;
    let nothing: &[(&str, &str)] = &[];
    for (headers, sent) in [
        (nothing, Bytes::new()),
        (nothing, framed(1000, 0).slice(..3)),
        (nothing, framed(1000, 999)),
        (&[("grpc-timeout", "200m")], framed(1000, 999)),
    ] {
        let started = Instant::now();
        let (response, mut body) = begin(&mut requests, EVALUATE, headers).await;
        body.send_data(sent, false).unwrap();
        let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
        assert_eq!(code, Code::DeadlineExceeded, "{text}");
        assert!(text.contains("--request-timeout"), "{text}");
        let most = if headers.is_empty() { 900 } else { 350 };
        assert!(started.elapsed() < Duration::from_millis(most), "{:?}", started.elapsed());
    }
    server.memory_returns().await;
}

#[tokio::test]
async fn a_request_has_one_message() {
    let server = start(limits(32 * MIB));
    let (mut requests, _driver) = server.connect().await;
    let call = begin(&mut requests, EVALUATE, &[]).await;
    let twice = [evaluation("echo", 10), evaluation("echo", 10)].concat();
    let (_, code, text) = finish(call, twice.into()).await.unwrap();
    assert_eq!((code, text.contains("more than one message")), (Code::Internal, true), "{text}");
    let call = begin(&mut requests, EVALUATE, &[]).await;
    let (_, code, _) = finish(call, Bytes::new()).await.unwrap();
    assert_ne!(code, Code::Ok, "a request without a message is an error");
    server.memory_returns().await;
}

#[tokio::test]
async fn a_compressed_message_takes_what_it_may_become() {
    let server = start(limits(32 * MIB));
    let (mut requests, driver) = server.connect().await;
    let (_response, mut body) = begin(&mut requests, EVALUATE, &[("grpc-encoding", "gzip")]).await;
    let mut data = framed(100_000, 10).to_vec();
    data[0] = 1;
    body.send_data(data.into(), false).unwrap();
    eventually("it takes the most that a message may have", || server.memory.usage().used > 2 * MESSAGE)
        .await;
    driver.abort();
    drop((body, requests));
    server.memory_returns().await;
}

#[tokio::test]
async fn an_answer_that_is_not_read_does_not_hold_memory_forever() {
    let server = start(Limits { answer_time: Duration::from_millis(500), ..limits(40 * MIB) });
    // Room for the answer to the check that begins a connection, and for no more.
    for window in [64, 20_000] {
        let (mut requests, driver) = server.connect_as(Builder::new().initial_window_size(window)).await;
        let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
        body.send_data(evaluation("large", 10), true).unwrap();
        let response = response.await.unwrap();
        assert!(server.memory.usage().used > 3 * MIB, "the answer has its memory while it waits");
        let ended = tokio::time::timeout(Duration::from_secs(15), driver).await;
        assert!(ended.is_ok(), "the connection is closed");
        drop(response);
        server.memory_returns().await;
    }
}

#[tokio::test]
async fn a_peer_that_stops_reading_its_socket_does_not_hold_memory_forever() {
    let server = start(Limits { answer_time: Duration::from_millis(500), ..limits(256 * MIB) });
    let deaf = Arc::new(AtomicBool::new(false));
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let settings =
        Builder::new().initial_window_size(1 << 30).initial_connection_window_size(1 << 30).clone();
    let (requests, connection) =
        settings.handshake(support::Deaf { stream, deaf: Arc::clone(&deaf) }).await.unwrap();
    let _driver = tokio::spawn(connection);
    let mut requests = requests.ready().await.unwrap();
    let check = begin(&mut requests, CHECK, &[]).await;
    finish(check, framed(0, 0)).await.unwrap();
    deaf.store(true, Ordering::Relaxed);
    let mut calls = Vec::new();
    for _ in 0..6 {
        let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
        body.send_data(evaluation("large", 10), true).unwrap();
        calls.push((response, body));
    }
    eventually("answers wait", || server.memory.usage().used > 20 * MIB).await;
    assert!(server.is_healthy().await);
    support::within(Duration::from_secs(30), "all memory comes back", || server.memory.usage().used == 0)
        .await;
}

#[tokio::test]
async fn a_health_call_that_never_ends_its_message_is_ended() {
    let server = start(Limits { request_time: Duration::from_millis(300), ..limits(32 * MIB) });
    let (mut requests, _driver) = server.connect().await;
    for sent in [Bytes::new(), framed(10, 3)] {
        let (response, mut body) = begin(&mut requests, CHECK, &[]).await;
        body.send_data(sent, false).unwrap();
        let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
        assert_eq!((code, text.contains("--request-timeout")), (Code::DeadlineExceeded, true), "{text}");
    }
}

#[tokio::test]
async fn answers_that_were_not_asked_for_in_size_are_refused_when_memory_is_short() {
    let server = start(limits(40 * MIB));
    let (mut requests, _driver) = server.connect_as(Builder::new().initial_window_size(64)).await;
    let mut codes = Vec::new();
    let mut unread = Vec::new();
    for _ in 0..8 {
        let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
        body.send_data(evaluation("large", 10), true).unwrap();
        let response = response.await.unwrap();
        match response.headers().get("grpc-status") {
            Some(code) => codes.push(Code::from_bytes(code.as_bytes())),
            None => unread.push(response),
        }
    }
    assert!(codes.len() >= 7 && codes.iter().all(|code| *code == Code::ResourceExhausted), "{codes:?}");
    assert!(server.memory.usage().used <= 40 * MIB);
    assert!(server.is_healthy().await);
}

#[tokio::test]
async fn a_flood_of_calls_gets_128_at_once_on_a_connection() {
    let server = start(limits(64 * MIB));
    let (mut requests, _driver) = server.connect().await;
    assert_eq!(requests.current_max_send_streams(), 128);
    let flood: Vec<_> = (0..500)
        .map(|_| {
            let mut requests = requests.clone();
            tokio::spawn(async move {
                let call = begin(&mut requests, EVALUATE, &[]).await;
                finish(call, evaluation("echo", 1000)).await.unwrap().1
            })
        })
        .collect();
    assert!(server.is_healthy().await);
    for call in flood {
        assert_eq!(call.await.unwrap(), Code::Ok);
    }
    let call = begin(&mut requests, CHECK, &[]).await;
    assert_eq!(finish(call, framed(0, 0)).await.unwrap().1, Code::Ok);
    server.memory_returns().await;
}

#[tokio::test]
async fn headers_without_messages_are_bounded_too() {
    let server = start(limits(8 * MIB));
    let padding = "x".repeat(12_000);
    let mut begun = Vec::new();
    for _ in 0..3 {
        let (mut requests, _driver) = server.connect().await;
        for _ in 0..40 {
            begun.push(begin(&mut requests, EVALUATE, &[("padding", &padding)]).await);
        }
    }
    eventually("most are refused", || server.memory.usage().refused >= 100).await;
    assert!(server.memory.usage().used <= 8 * MIB);
    assert!(server.is_healthy().await);
    let (response, _body) = begun.pop().unwrap();
    let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
    assert_eq!((code, text.contains("--memory-budget")), (Code::ResourceExhausted, true), "{text}");
    drop(begun);
    server.memory_returns().await;
}

#[tokio::test]
async fn metadata_has_a_limit_that_the_caller_learns() {
    let server = start(limits(32 * MIB));
    let (mut requests, _driver) = server.connect().await;
    let large = "x".repeat(20_000);
    for path in [EVALUATE, CHECK] {
        let call = begin(&mut requests, path, &[("large", &large)]).await;
        let (_, code, text) = finish(call, framed(0, 0)).await.unwrap();
        assert_eq!(code, Code::ResourceExhausted, "{path}");
        assert!(text.contains("the metadata of the call has 20"), "{text}");
    }
}

#[tokio::test]
async fn health_calls_need_no_memory_and_cannot_take_much() {
    let server = start(limits(8 * MIB));
    let (mut requests, driver) = server.connect().await;
    let (response, mut body) = begin(&mut requests, CHECK, &[]).await;
    body.send_data(framed(17_000, 0), false).unwrap();
    let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
    assert_eq!((code, text.contains("17000 vs. 16384")), (Code::ResourceExhausted, true), "{text}");
    let mut watches = Vec::new();
    for _ in 0..32 {
        let (response, mut body) = begin(&mut requests, "/grpc.health.v1.Health/Watch", &[]).await;
        body.send_data(framed(0, 0), true).unwrap();
        watches.push(response.await.unwrap());
    }
    let call = begin(&mut requests, CHECK, &[]).await;
    assert_eq!(finish(call, framed(0, 0)).await.unwrap().1, Code::ResourceExhausted);
    assert!(server.is_healthy().await, "other connections have their own");
    driver.abort();
}

#[tokio::test]
async fn connections_are_refused_beyond_their_limit_and_served_again_below_it() {
    let server = start(Limits { connections: 8, ..limits(32 * MIB) });
    let (mut connections, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut connection = server.connect().await;
        // One without a call would make room.
        calls.push(begin(&mut connection.0, EVALUATE, &[]).await);
        connections.push(connection);
    }
    // The server knows of the calls once it has answered another one on each connection.
    for (requests, _) in &mut connections {
        let call = begin(requests, EVALUATE, &[]).await;
        assert_eq!(finish(call, evaluation("echo", 10)).await.unwrap().1, Code::Ok);
    }
    // The fifth of one address.
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (_requests, connection) = h2::client::handshake(stream).await.unwrap();
    let refused = connection.await.unwrap_err();
    assert_eq!(refused.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM), "{refused}");
    assert!(refused.to_string().contains("--max-connections"), "{refused}");
    let (mut requests, _) = connections.remove(0);
    let call = begin(&mut requests, EVALUATE, &[]).await;
    assert_eq!(finish(call, evaluation("echo", 10)).await.unwrap().1, Code::Ok, "those that are there go on");
    drop((requests, connections, calls));
    for _ in 0..100 {
        if server.client().is_serving().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("there is room again");
}

#[tokio::test]
async fn connections_that_do_nothing_keep_nobody_out() {
    let server = start(Limits { connections: 8, ..limits(32 * MIB) });
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
        let (idle, _driver) = server.connect().await;
        server.client().evaluate("echo", "x".into(), None).await.unwrap();
        drop(idle);
    }
}

#[tokio::test]
async fn an_old_connection_is_asked_to_leave_and_its_calls_end_first() {
    let server = start(Limits { connection_age: Some(Duration::from_millis(500)), ..limits(32 * MIB) });
    let (mut requests, driver) = server.connect().await;
    let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
    let message = evaluation("echo", 10_000);
    body.send_data(message.slice(..100), false).unwrap();
    // After GOAWAY no further call can be begun.
    let gone = async {
        while requests.clone().ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.unwrap();
    body.send_data(message.slice(100..), true).unwrap();
    let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
    assert_eq!(code, Code::Ok, "{text}");
    drop((requests, body));
    driver.await.unwrap().unwrap();
    // The client of this project notices nothing but a new connection.
    let client = server.client();
    for _ in 0..30 {
        client.evaluate("echo", "x".into(), None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_old_connection_whose_calls_do_not_end_is_cut() {
    let grace = Some(Duration::from_millis(300));
    let age = Some(Duration::from_millis(300));
    let server = start(Limits { connection_age: age, connection_age_grace: grace, ..limits(32 * MIB) });
    let (mut requests, _driver) = server.connect().await;
    let (response, mut body) = begin(&mut requests, EVALUATE, &[]).await;
    body.send_data(evaluation("forever", 10), true).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), response).await.unwrap();
    assert!(ended.is_err());
    server.memory_returns().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_calls_ends() {
    let server = start(Limits { connection_idle: Some(Duration::from_secs(60)), ..limits(32 * MIB) });
    let (requests, driver) = server.connect().await;
    let begin = tokio::time::Instant::now();
    driver.await.unwrap().unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(55) && begin.elapsed() < Duration::from_secs(90));
    drop(requests);
}

#[tokio::test]
async fn a_call_without_a_deadline_ends_and_names_the_flag() {
    let server = start(Limits { call_time: Some(Duration::from_millis(300)), ..limits(32 * MIB) });
    let status = server.client().evaluate("forever", "x".into(), None).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().contains("300ms (--call-timeout)"), "{status:?}");
    server.memory_returns().await;
}

#[tokio::test]
async fn callers_cannot_make_up_names_of_methods() {
    let server = start(Limits { request_time: Duration::from_millis(200), ..limits(32 * MIB) });
    let (mut requests, _driver) = server.connect().await;
    for _ in 0..3 {
        let (response, _body) = begin(&mut requests, "/evaluator.FunctionEvaluator/MadeUp", &[]).await;
        let (_, code, text) = support::answer(response.await.unwrap()).await.unwrap();
        assert_eq!(code, Code::Unimplemented);
        assert_eq!(text, "unknown method MadeUp for service evaluator.FunctionEvaluator");
    }
    let (response, _body) = begin(&mut requests, EVALUATE, &[]).await;
    support::answer(response.await.unwrap()).await.unwrap();
    let heard = server.heard.0.lock().unwrap().clone();
    assert!(!heard.iter().any(|(method, _)| method == "MadeUp"), "{heard:?}");
    assert!(heard.contains(&("EvaluateFunction".to_owned(), Code::DeadlineExceeded)), "{heard:?}");
}

#[tokio::test]
async fn a_long_name_of_an_image_is_refused() {
    let server = start(limits(32 * MIB));
    let status = server.client().evaluate(&"x".repeat(MIB), "x".into(), None).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("1048576 bytes") && status.message().len() < 200, "{status:?}");
}

/// One thread serves all of this test, so that anything long on it would keep health waiting.
#[tokio::test]
async fn many_results_do_not_hold_up_health() {
    let server = start(limits(64 * MIB));
    let client = server.client();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.evaluate("failing", vec![b'x'; 60_000].into(), None).await })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
        let begin = Instant::now();
        assert!(server.is_healthy().await);
        slowest = slowest.max(begin.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for call in calls {
        let status = call.await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("structured results"), "{}", status.message().len());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}
