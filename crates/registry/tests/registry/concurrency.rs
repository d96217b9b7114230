//! Many callers, few fetches.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use loggia_function::Image as Name;
use loggia_registry::{Images, Retries, Settings};

use crate::clock::{pass, settled, until};
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
                let metadata = images.metadata(&Name::new(&image)).await.unwrap();
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
    registry.push(&Image::named("latest"), "fn:latest");
    let proxy = Proxy::to(registry.port);
    let (open, gate) = mpsc::channel();
    proxy.spoil(move |_, reply| {
        gate.recv().unwrap();
        reply
    });
    // Asks for an image and goes away while its manifest is on the way.
    let images = images();
    let ask_and_leave = async |image: &str, path: &str| {
        let (images, image) = (images.clone(), image.to_owned());
        let caller = tokio::spawn(async move { images.metadata(&Name::new(&image)).await });
        until(|| proxy.stub.count(path) > 0).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
    };
    let image = proxy.image("fn:v1");
    ask_and_leave(&image, "/manifests/v1").await;
    for _ in ["manifest", "config"] {
        open.send(()).unwrap();
    }
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap().entrypoint, ["/fn", "fn"]);
    assert_eq!((proxy.stub.count("/manifests/"), proxy.stub.count("/blobs/")), (1, 1));

    // The fetch goes on even if no caller waits for it.
    let other = proxy.image("fn:latest");
    ask_and_leave(&other, "/manifests/latest").await;
    assert!(images.known(&Name::new(&other)).is_none());
    for _ in ["manifest", "config"] {
        open.send(()).unwrap();
    }
    settled().await;
    assert_eq!(images.known(&Name::new(&other)).unwrap().entrypoint, ["/fn", "latest"]);
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
        assert!(images.metadata(&Name::new(&image)).await.is_err());
    }
    assert_eq!(proxy.stub.count("/manifests/"), 1);
    registry.push(&Image::named("fn"), "fn:v1");
    pass(Duration::from_secs(1)).await;
    assert!(images.metadata(&Name::new(&image)).await.is_ok());
}

#[tokio::test]
async fn a_tag_that_moved_is_noticed_behind_the_callers_back() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    registry.push(&Image::named("one"), "fn:v1");
    let proxy = Proxy::to(registry.port);
    let ttl = Duration::from_secs(60);
    let retries = Retries { count: 0, ..Retries::default() };
    let images = Images::new(Settings { ttl: Some(ttl), retries, ..settings() });
    let image = proxy.image("fn:v1");
    let one = images.metadata(&Name::new(&image)).await.unwrap();
    let by_digest = proxy.image(&format!("fn@{}", one.digest));
    images.metadata(&Name::new(&by_digest)).await.unwrap();
    let gets = proxy.stub.count("GET ");

    // Within its time it is not checked, and then by one HEAD if it has not moved.
    pass(ttl / 2).await;
    assert!(Arc::ptr_eq(&one, &images.metadata(&Name::new(&image)).await.unwrap()));
    settled().await;
    assert_eq!(proxy.stub.count("HEAD "), 0);
    pass(ttl).await;
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&one, &images.metadata(&Name::new(&image)).await.unwrap()));
    }
    settled().await;
    assert_eq!((proxy.stub.count("HEAD /v2/fn/manifests/v1"), proxy.stub.count("GET ")), (1, gets));

    // It moves: the next caller gets what was known, at once, and later callers the new image.
    registry.push(&Image::named("two"), "fn:v1");
    pass(ttl).await;
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap().entrypoint[1], "one");
    settled().await;
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap().entrypoint[1], "two");
    assert_eq!(images.metadata(&Name::new(&by_digest)).await.unwrap().entrypoint[1], "one");

    // A registry that fails takes nothing away.
    proxy.spoil(|_, _| Reply::status(503));
    pass(ttl).await;
    let heads = proxy.stub.count("HEAD ");
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap().entrypoint[1], "two");
    settled().await;
    assert_eq!(proxy.stub.count("HEAD "), heads + 1);
    assert_eq!(images.metadata(&Name::new(&image)).await.unwrap().entrypoint[1], "two");
}
