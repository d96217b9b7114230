//! The standard health service.
//!
//! Every name but one answers as the whole service does, because the program that this one replaces knows no
//! names at all, and probes in use may carry any. `loggia.warm` serves once the first calls are quick, too.

use std::pin::Pin;

use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::debug;

use crate::lifecycle::{Lifecycle, Phase};

/// The service name that is SERVING once the warm-up is over.
const WARM: &str = "loggia.warm";

/// Shows the phase of a service to probes.
#[derive(Clone, Debug)]
pub(crate) struct HealthService(pub(crate) Lifecycle);

// === impl HealthService ===

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        debug!("Serving the Check request for health check");
        Ok(Response::new(response(self.serves(&request.get_ref().service))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Tells how the service is now and at every change, until it closes.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let name = request.into_inner().service;
        let (phase, health) = (self.0.watch(), self.clone());
        let phases = WatchStream::new(self.0.watch()).map(drop);
        let changes = phases.merge(WatchStream::new(self.0.watch_warm()).map(drop));
        let changes = changes.take_while(move |()| *phase.borrow() != Phase::Closing);
        let mut last = None;
        let news = changes.filter_map(move |()| {
            let serves = health.serves(&name);
            (last.replace(serves) != Some(serves)).then(|| Ok(response(serves)))
        });
        Ok(Response::new(Box::pin(news)))
    }
}

impl HealthService {
    fn serves(&self, name: &str) -> bool {
        let serves = *self.0.watch().borrow() == Phase::Serving;
        serves && (name != WARM || *self.0.watch_warm().borrow())
    }
}

fn response(serves: bool) -> HealthCheckResponse {
    let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(health: &HealthService, name: &str) -> ServingStatus {
        let request = Request::new(HealthCheckRequest { service: name.to_owned() });
        health.check(request).await.unwrap().into_inner().status()
    }

    #[tokio::test]
    async fn one_name_waits_until_all_is_warm_and_all_others_do_not() {
        let lifecycle = Lifecycle::default();
        let health = HealthService(lifecycle.clone());
        lifecycle.set_warm(false);
        lifecycle.serve();
        for name in ["", "evaluator.FunctionEvaluator", "anything"] {
            assert_eq!(status(&health, name).await, ServingStatus::Serving);
        }
        assert_eq!(status(&health, WARM).await, ServingStatus::NotServing);
        let request = Request::new(HealthCheckRequest { service: WARM.to_owned() });
        let mut news = health.watch(request).await.unwrap().into_inner();
        let mut next = async || news.next().await.map(|news| news.unwrap().status());
        assert_eq!(next().await, Some(ServingStatus::NotServing));
        lifecycle.set_warm(true);
        assert_eq!(next().await, Some(ServingStatus::Serving));
        assert_eq!(status(&health, WARM).await, ServingStatus::Serving);
        lifecycle.drain(std::time::Duration::ZERO).await;
        assert_eq!(status(&health, WARM).await, ServingStatus::NotServing);
    }
}
