//! The services of one port, and the way of a call to one of them and back.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use hyper::body::Incoming;
use loggia_function::{Context, SIZE_FLAGS};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service;

use crate::admission::{self, Weight};
use crate::departure::Departing;
use crate::gate::{Admission, Caller, Denial, Gate};
use crate::headers::{self, TimeLimit, too_large};
use crate::health::HealthService;
use crate::lifecycle::Lifecycle;
use crate::limits::{LIGHT_STREAMS, Limits};
use crate::line::{Line, OpenCall};
use crate::observe::{Observer, Watch};
use crate::service::{Evaluations, EvaluatorService};
use crate::tls::ServerTls;
use crate::wire::FunctionEvaluatorServer;

/// How often the size of its message a call of the evaluator takes: the message, and its answer.
const EVALUATION: usize = 2;

/// The same for a service that was added: it takes its messages apart.
const ADDED: usize = 8;

type Response = http::Response<Body>;
type Handler = dyn Fn(http::Request<Body>) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync;

/// The services of one port.
#[derive(Clone)]
pub struct Routes {
    lifecycle: Lifecycle,
    services: Arc<Vec<Route>>,
    observer: Option<Arc<dyn Observer>>,
    tls: Option<ServerTls>,
    message_limit: usize,
    limits: Limits,
    gate: Option<Arc<dyn Gate>>,
}

struct Route {
    service: &'static str,
    /// Callers cannot make up other names, which would show in metrics.
    methods: &'static [&'static str],
    weight: Weight,
    handler: Box<Handler>,
}

/// The services as one connection reaches them.
pub(crate) struct Calls {
    pub(crate) routes: Arc<Routes>,
    pub(crate) line: Arc<Line>,
    pub(crate) caller: Caller,
}

// === impl Routes ===

impl Routes {
    /// The function evaluator and its health, with messages of at most `message_limit` bytes either way.
    pub fn new(evaluations: Evaluations, lifecycle: &Lifecycle, message_limit: usize) -> Self {
        let service = EvaluatorService::new(evaluations, lifecycle.clone(), message_limit);
        let server = FunctionEvaluatorServer::new(service)
            .max_decoding_message_size(message_limit)
            .max_encoding_message_size(message_limit);
        #[cfg(feature = "gzip")]
        let server = server.accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        let mut routes = Self {
            lifecycle: lifecycle.clone(),
            services: Arc::default(),
            observer: None,
            tls: None,
            message_limit,
            limits: Limits::default(),
            gate: None,
        };
        routes.add(server, &["EvaluateFunction"], Weight::Times(EVALUATION));
        let health = HealthServer::new(HealthService(lifecycle.clone()));
        routes.add(health, &["Check", "Watch"], Weight::Light);
        routes
    }

    /// Adds another service, whose methods take one message each.
    #[must_use]
    pub fn with<S>(mut self, service: S, methods: &'static [&'static str]) -> Self
    where
        S: Service<http::Request<Body>, Response = Response, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        self.add(service, methods, Weight::Times(ADDED));
        self
    }

    /// Takes no more from callers than this.
    #[must_use]
    pub fn within(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Asks before a call is let in. Health and reflection are open to all.
    #[must_use]
    pub fn behind(mut self, gate: Option<Arc<dyn Gate>>) -> Self {
        self.gate = gate;
        self
    }

    /// Serves over TLS alone.
    #[must_use]
    pub fn over_tls(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }

    /// Reports every call of every method to an observer.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Lets clients ask for the protocol and for that of services that were added.
    #[cfg(feature = "reflection")]
    #[must_use]
    pub fn with_reflection_of(mut self, added: &[&'static [u8]]) -> Self {
        let builder = || {
            let builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(crate::wire::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
            added.iter().fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
        };
        let methods = &["ServerReflectionInfo"];
        match (builder().build_v1(), builder().build_v1alpha()) {
            (Ok(v1), Ok(v1alpha)) => {
                self.add(v1, methods, Weight::Light);
                self.add(v1alpha, methods, Weight::Light);
            }
            // The descriptors are compiled in, so this is for developers.
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "No server reflection"),
        }
        self
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    fn add<S>(&mut self, service: S, methods: &'static [&'static str], weight: Weight)
    where
        S: Service<http::Request<Body>, Response = Response, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let handler = move |request| -> Pin<Box<dyn Future<Output = Response> + Send>> {
            let answer = service.clone().call(request);
            Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
        };
        // Routes are put together before they are shared.
        if let Some(services) = Arc::get_mut(&mut self.services) {
            services.push(Route { service: S::NAME, methods, weight, handler: Box::new(handler) });
        }
    }

    /// Lets a call in and answers it.
    async fn answer(
        &self,
        route: &Route,
        mut parts: Parts,
        body: Incoming,
        time_limit: TimeLimit,
        caller: &Caller,
        call: &mut OpenCall,
    ) -> Result<Response, Status> {
        let mut grant = None;
        let body = match route.weight {
            Weight::Light => {
                call.lighten().map_err(|()| {
                    Status::resource_exhausted(format!(
                        "more than {LIGHT_STREAMS} health and reflection calls at once on one connection"
                    ))
                })?;
                Body::new(admission::admit_light(&parts.headers, body, self.limits.request_time)?)
            }
            Weight::Times(factor) => {
                let (limits, phase) = (&self.limits, self.lifecycle.watch());
                let headers = &parts.headers;
                // Where memory is short, one connection must not take all places to wait for it.
                let place = call.place();
                if place.is_none() && limits.memory.is_short() {
                    limits.memory.refuse();
                    return Err(admission::too_many(&limits.memory));
                }
                let mut allowed = self.allow(route.service, caller, &time_limit).await?;
                let pledge = allowed.bytes.take();
                let alone = call.waits_alone();
                let terms = admission::Terms { message_limit: self.message_limit, factor, alone };
                let admitted =
                    admission::admit(headers, body, limits, terms, &time_limit, phase, pledge).await;
                let (held, share, arriving) = admitted?;
                drop(place);
                call.hold(held.clone());
                grant = allowed.grant.take();
                call.occupy((allowed.call, share));
                parts.extensions.insert(held);
                Body::new(arriving)
            }
        };
        parts.extensions.insert(time_limit);
        let answer = (route.handler)(http::Request::from_parts(parts, body));
        let context = Context::current().zip(grant).map(|(context, grant)| context.with_grant(grant));
        Ok(in_grpc_go_words(match context {
            Some(context) => context.continued(answer).await,
            None => answer.await,
        }))
    }

    /// Asks the gate about a call.
    async fn allow(&self, service: &str, caller: &Caller, limit: &TimeLimit) -> Result<Admission, Status> {
        let Some(gate) = &self.gate else { return Ok(Admission::default()) };
        gate.admit(caller, service, limit.deadline).await.map_err(|Denial { rule, status }| {
            tracing::warn!(%caller, rule = rule.as_deref(), code = ?status.code(), "Denied a call to {service}");
            if let Some(observer) = &self.observer {
                observer.denied(rule.as_deref());
            }
            status
        })
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.services.iter().map(|route| route.service)).finish()
    }
}

// === impl Calls ===

impl hyper::service::Service<http::Request<Incoming>> for Calls {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let (mut call, arrival) = (self.line.open(), Instant::now());
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().trim_start_matches('/');
        let (service, method) = path.split_once('/').unwrap_or((path, ""));
        let found = self.routes.services.iter().position(|route| route.service == service);
        let Some((index, route)) = found.and_then(|index| Some((index, self.routes.services.get(index)?)))
        else {
            let unknown = Status::unimplemented(format!("unknown service {service}")).into_http();
            return Box::pin(std::future::ready(Ok(Departing::answer(unknown, call))));
        };
        let known = route.methods.iter().find(|known| **known == method).copied();
        let unknown = known
            .is_none()
            .then(|| Status::unimplemented(format!("unknown method {method} for service {service}")));
        let context = headers::context(&parts.headers);
        let observer = self.routes.observer.clone();
        let watch = observer.map(|observer| {
            Watch::new(observer, route.service, known.unwrap_or_default(), arrival, context.clone())
        });
        let context = watch.as_ref().map_or(context, |watch| watch.context().clone());
        let time_limit = TimeLimit::of(&parts.headers, arrival, self.routes.limits.call_time);
        let (routes, caller) = (Arc::clone(&self.routes), self.caller.clone());
        Box::pin(context.scope(async move {
            let answer = match (unknown, routes.services.get(index)) {
                (None, Some(route)) => {
                    routes.answer(route, parts, body, time_limit, &caller, &mut call).await
                }
                (unknown, _) => Err(unknown.unwrap_or_else(|| Status::unimplemented(""))),
            };
            let response = answer.unwrap_or_else(Status::into_http);
            let response = match watch {
                Some(watch) => watch.over(response),
                None => response,
            };
            Ok(Departing::answer(response, call))
        }))
    }
}

/// The library's own refusals, in the codes and words that clients of the original know.
fn in_grpc_go_words(response: Response) -> Response {
    let code = response.headers().get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
    // Nothing else is looked at: a status of ours may be long, and means what it says.
    if !matches!(code, Some(Code::OutOfRange | Code::ResourceExhausted)) {
        return response;
    }
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let better = match (status.code(), status.message()) {
        (Code::OutOfRange, text) => match too_large(text) {
            Some((size, limit)) => Status::resource_exhausted(format!(
                "grpc: received message larger than max ({size} vs. {limit}); {SIZE_FLAGS}"
            )),
            None => return response,
        },
        (Code::ResourceExhausted, text) if text.starts_with("Error decompressing") => {
            let text = format!("grpc: received message after decompression larger than max; {SIZE_FLAGS}");
            Status::resource_exhausted(text)
        }
        _ => return response,
    };
    better.into_http()
}
