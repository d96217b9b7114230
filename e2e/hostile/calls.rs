//! Calls of the evaluator and of the package service.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use loggia_grpc::wire::details::EvaluationError;
use loggia_packages::service::wire::package_service_client::PackageServiceClient;
use loggia_packages::service::wire::render_event::Event;
use loggia_packages::service::wire::{
    KptfilePatch, PatchKptfileRequest, RenderEvent, RenderRequest, ReplaceResourcesRequest, StringMap,
};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::transport::Endpoint;
use tonic::{Response, Status, Streaming};

use crate::list;
use crate::rows::{Attempt, Evaluate, Exec, Package};
use crate::service::client;
use crate::template::expand;

/// What the sender got: nothing but an answer, or the error's code and all its texts.
pub(crate) type Answer = Result<String, String>;

/// How much text of errors is kept.
const TEXTS: usize = 64 << 10;

/// How one call is made.
#[derive(Clone, Copy)]
struct Manner {
    deadline: Duration,
    leaves: Option<Duration>,
}

/// Calls a function, as often as the row says; the answer is the last one, or all errors.
pub(crate) async fn evaluate(
    address: &str,
    attempt: &Attempt,
    evaluate: &Evaluate,
) -> Result<Answer, String> {
    let list = Bytes::from(list::bytes(attempt, evaluate)?);
    let manner = manner(attempt, evaluate.deadline, evaluate.leaves);
    Ok(many(address, &expand(&attempt.image, attempt.size)?, &list, manner, evaluate.calls, evaluate.at_once)
        .await)
}

/// Calls the function `example.com/hostile`, which a script was put in place of.
pub(crate) async fn exec(address: &str, attempt: &Attempt, exec: &Exec) -> Result<Answer, String> {
    let plain = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";
    let list = expand(exec.input.as_deref().unwrap_or(plain), attempt.size)?;
    let manner = manner(attempt, exec.deadline, exec.leaves);
    Ok(many(address, "example.com/hostile:v1", &list.into(), manner, exec.calls, exec.at_once).await)
}

fn manner(attempt: &Attempt, deadline: Option<f64>, leaves: Option<f64>) -> Manner {
    Manner {
        deadline: deadline.map_or(attempt.row.within(), Duration::from_secs_f64),
        leaves: leaves.map(Duration::from_secs_f64),
    }
}

async fn many(
    address: &str,
    image: &str,
    list: &Bytes,
    manner: Manner,
    calls: usize,
    at_once: usize,
) -> Answer {
    let mut running = JoinSet::new();
    let mut worst: Answer = Ok(String::new());
    let mut started = 0;
    while started < calls || !running.is_empty() {
        while started < calls && running.len() < at_once {
            let (client, image, list) = (client(address), image.to_owned(), list.clone());
            running.spawn(async move { one(&client, &image, list, manner).await });
            started += 1;
        }
        if let Some(Ok(answer)) = running.join_next().await {
            worst = match (worst, answer) {
                (Err(all), Err(next)) if all.len() < TEXTS => Err(all + "\n" + &next),
                (Err(all), _) => Err(all),
                (Ok(_), answer) => answer,
            };
        }
    }
    worst
}

async fn one(client: &loggia_grpc::Client, image: &str, list: Bytes, manner: Manner) -> Answer {
    let call = client.evaluate(image, list, Some(manner.deadline));
    let answer = match manner.leaves {
        None => call.await,
        Some(patience) => match tokio::time::timeout(patience, call).await {
            Ok(answer) => answer,
            Err(_) => return Ok("left".to_owned()),
        },
    };
    match answer {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer.resource_list).into_owned()
            + &String::from_utf8_lossy(&answer.log)),
        Err(status) => Err(described(&status)),
    }
}

/// The code, the message, and what the details say.
fn described(status: &Status) -> String {
    let details = EvaluationError::of(status).map(|details| {
        let results: Vec<String> =
            details.results.iter().take(20).map(|result| result.message.clone()).collect();
        format!("\n{}\n{}", details.stderr, results.join("\n"))
    });
    format!("{:?}: {}{}", status.code(), status.message(), details.unwrap_or_default())
}

/// Calls the package service.
pub(crate) async fn package(address: &str, attempt: &Attempt, package: &Package) -> Result<Answer, String> {
    let mut resources = BTreeMap::new();
    for (path, content) in &package.files {
        resources.insert(expand(path, attempt.size)?, expand(content, attempt.size)?.into_bytes());
    }
    for (path, content) in nested(package.nested, attempt.size) {
        resources.insert(path, content.into_bytes());
    }
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let deadline = package.deadline.map_or(attempt.row.within(), Duration::from_secs_f64);
    let mut client = PackageServiceClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(64 << 20)
        .max_encoding_message_size(64 << 20);
    let call = async {
        let labels = package.labels.map(|count| {
            let entries =
                (0..scaled(count, attempt.size)).map(|index| (format!("k{index}"), String::new())).collect();
            StringMap { entries }
        });
        let patch = Some(KptfilePatch { labels, ..KptfilePatch::default() });
        let answer = match package.method.as_str() {
            "" | "render" => {
                client
                    .render(timed(RenderRequest { resources, push_on_render_failure: false }, deadline))
                    .await
            }
            "patch" => {
                let request = PatchKptfileRequest { resources, patch, ..PatchKptfileRequest::default() };
                client.patch_kptfile(timed(request, deadline)).await
            }
            _ => {
                let old_resources = resources.clone();
                let request = ReplaceResourcesRequest {
                    old_resources,
                    resources,
                    ..ReplaceResourcesRequest::default()
                };
                client.replace_resources(timed(request, deadline)).await
            }
        };
        outcome(answer).await
    };
    let patience = package.leaves.map_or(deadline + Duration::from_secs(2), Duration::from_secs_f64);
    Ok(match tokio::time::timeout(patience, call).await {
        Ok(answer) => answer,
        Err(_) if package.leaves.is_some() => Ok("left".to_owned()),
        Err(_) => Err("no answer, 2 s after the deadline".to_owned()),
    })
}

fn timed<T>(message: T, deadline: Duration) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(deadline);
    request
}

async fn outcome(answer: Result<Response<Streaming<RenderEvent>>, Status>) -> Answer {
    let mut stream = answer.map_err(|status| described(&status))?.into_inner();
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = event.map_err(|status| described(&status))?.event;
    }
    match last {
        Some(Event::Outcome(outcome)) if outcome.error.is_empty() => Ok(String::new()),
        Some(Event::Outcome(outcome)) => Err(outcome.error),
        other => Err(format!("the last message is not an outcome: {other:?}")),
    }
}

/// Packages `a`, `a/a`, … of this depth.
pub(crate) fn nested(depth: Option<usize>, size: f64) -> Vec<(String, String)> {
    let folders = (0..depth.map_or(0, |depth| scaled(depth, size))).map(|depth| "a/".repeat(depth));
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: a}\n";
    folders.map(|folder| (format!("{folder}Kptfile"), kptfile.to_owned())).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts are small"
)]
pub(crate) fn scaled(count: usize, size: f64) -> usize {
    ((count as f64 * size) as usize).max(1)
}
