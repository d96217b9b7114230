//! Counting the requests to the API server: a layer of the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tower_layer::Layer;
use tower_service::Service;

use crate::Observer;

/// Reports each request to an observer.
#[derive(Clone, Debug)]
pub(crate) struct Counting(pub(crate) Arc<dyn Observer>);

/// A client whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    observer: Arc<dyn Observer>,
}

// === impl Counting ===

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, observer: Arc::clone(&self.0) }
    }
}

// === impl Counted ===

impl<S, B, R> Service<http::Request<B>> for Counted<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (verb, resource) = question(request.method(), request.uri());
        let observer = Arc::clone(&self.observer);
        let begin = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            observer.asked(verb, resource, code, begin.elapsed());
            answer
        })
    }
}

/// The verb and the resource of a request, as RBAC names them. What this program does not use is `other`.
fn question(method: &http::Method, uri: &http::Uri) -> (&'static str, &'static str) {
    let mut parts = uri.path().split('/').skip_while(|part| *part != "namespaces").skip(2);
    let resource = match parts.next() {
        Some("pods") => "pods",
        Some("services") => "services",
        Some("endpoints") => "endpoints",
        Some("configmaps") => "configmaps",
        Some("podtemplates") => "podtemplates",
        Some("servicetemplates") => "servicetemplates",
        Some("secrets") => "secrets",
        Some("events") => "events",
        _ => "other",
    };
    let named = parts.next().is_some();
    let watches = uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("watch=")));
    let verb = match (method.as_str(), named) {
        ("GET", _) if watches => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_as_roles_name_it() {
        let of = |method: &str, uri: &str| question(&method.parse().unwrap(), &uri.parse().unwrap());
        let pods = "/api/v1/namespaces/fns/pods";
        assert_eq!(of("GET", pods), ("list", "pods"));
        assert_eq!(of("GET", &format!("{pods}?labelSelector=a&watch=true")), ("watch", "pods"));
        assert_eq!(of("GET", &format!("{pods}/a-1")), ("get", "pods"));
        assert_eq!(of("POST", "/api/v1/namespaces/fns/services?"), ("create", "services"));
        assert_eq!(of("PATCH", &format!("{pods}/a-1?fieldManager=x")), ("patch", "pods"));
        assert_eq!(of("PUT", "/api/v1/namespaces/fns/secrets/s"), ("update", "secrets"));
        assert_eq!(of("DELETE", "/api/v1/namespaces/fns/services/s"), ("delete", "services"));
        let templates = "/apis/config.porch.kpt.dev/v1alpha1/namespaces/fns/servicetemplates/base";
        assert_eq!(of("GET", templates), ("get", "servicetemplates"));
        assert_eq!(of("GET", "/version"), ("list", "other"));
        assert_eq!(of("GET", "/api/v1/namespaces/namespaces/pods"), ("list", "pods"));
    }
}
