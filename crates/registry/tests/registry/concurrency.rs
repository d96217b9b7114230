//! Many who ask, few who fetch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_registry::{Images, Settings};

use crate::support::http::Reply;
use crate::support::image::Image;
use crate::support::proxy::Proxy;
use crate::support::server::Registry;
use crate::support::{images, installed, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_for_ten_images_make_ten_fetches() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    let proxy = Proxy::to(registry.port);
    for number in 0..10 {
        registry.push(&Image::named(&format!("n{number}")), &format!("fn{number}:v1"));
    }
    let images = images();
    let callers: Vec<_> = (0..1000)
        .map(|caller| {
            let (images, number) = (images.clone(), caller % 10);
            let image = proxy.image(&format!("fn{number}:v1"));
            tokio::spawn(async move {
                let metadata = images.metadata(&image).await.unwrap();
                assert_eq!(metadata.entrypoint[1], format!("n{number}"));
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let counts = (proxy.stub.count("/manifests/"), proxy.stub.count("/blobs/"));
    assert_eq!(counts, (10, 10));
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_fetch_to_the_others() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("fn"), "fn:v1");
    let proxy = Proxy::to(registry.port);
    proxy.spoil(|_, reply| {
        std::thread::sleep(Duration::from_millis(300));
        reply
    });
    let images = images();
    let image = proxy.image("fn:v1");
    let first = tokio::time::timeout(Duration::from_millis(100), images.metadata(&image));
    assert!(first.await.is_err());
    assert_eq!(images.metadata(&image).await.unwrap().entrypoint, ["/fn", "fn"]);
    assert_eq!((proxy.stub.count("/manifests/"), proxy.stub.count("/blobs/")), (1, 1));

    // Nobody needs to wait at all.
    let other = proxy.image("fn:latest");
    registry.push(&Image::named("latest"), "fn:latest");
    let _ = tokio::time::timeout(Duration::from_millis(50), images.metadata(&other)).await;
    let begin = Instant::now();
    while images.known(&other).is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_failure_is_the_answer_for_a_moment_and_then_asked_again() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    let (proxy, images) = (Proxy::to(registry.port), images());
    let image = proxy.image("fn:v1");
    for _ in 0..20 {
        assert!(images.metadata(&image).await.is_err());
    }
    assert_eq!(proxy.stub.count("/manifests/"), 1);
    registry.push(&Image::named("fn"), "fn:v1");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(images.metadata(&image).await.is_ok());
}

#[tokio::test]
async fn a_tag_that_moved_is_noticed_behind_the_callers_back() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("one"), "fn:v1");
    let proxy = Proxy::to(registry.port);
    let ttl = Duration::from_millis(300);
    let images = Images::new(Settings { ttl: Some(ttl), ..settings() });
    let image = proxy.image("fn:v1");
    let one = images.metadata(&image).await.unwrap();
    let by_digest = proxy.image(&format!("fn@{}", one.digest));
    images.metadata(&by_digest).await.unwrap();

    // The tag stands where it stood: a HEAD is enough.
    tokio::time::sleep(ttl).await;
    let gets = proxy.stub.count("GET ");
    assert!(Arc::ptr_eq(&one, &images.metadata(&image).await.unwrap()));
    until(|| proxy.stub.count("HEAD /v2/fn/manifests/v1") > 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(proxy.stub.count("GET "), gets);

    // It moves: who asks next gets what was known, at once, and later callers the new image.
    registry.push(&Image::named("two"), "fn:v1");
    tokio::time::sleep(ttl).await;
    assert_eq!(images.metadata(&image).await.unwrap().entrypoint[1], "one");
    let mut moved = false;
    for _ in 0..1000 {
        moved = images.metadata(&image).await.unwrap().entrypoint[1] == "two";
        if moved {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(moved);
    assert_eq!(images.metadata(&by_digest).await.unwrap().entrypoint[1], "one");

    // A registry that is gone takes nothing away.
    proxy.spoil(|_, _| Reply::status(503));
    tokio::time::sleep(ttl).await;
    for _ in 0..20 {
        assert_eq!(images.metadata(&image).await.unwrap().entrypoint[1], "two");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
