//! The standard health service.
//!
//! Every name answers as the whole service does, because the program that this one replaces knows no
//! names at all, and probes in use may carry any.

use std::pin::Pin;

use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::debug;

use crate::lifecycle::{Lifecycle, Phase};

/// Shows the phase of a service to probes.
#[derive(Clone, Debug)]
pub(crate) struct HealthService(pub(crate) Lifecycle);

// === impl HealthService ===

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        debug!("Serving the Check request for health check");
        Ok(Response::new(response(*self.0.watch().borrow())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Tells the phase now and at every change, until the service closes.
    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let phases = WatchStream::new(self.0.watch()).take_while(|phase| *phase != Phase::Closing);
        Ok(Response::new(Box::pin(phases.map(|phase| Ok(response(phase))))))
    }
}

fn response(phase: Phase) -> HealthCheckResponse {
    let status = match phase {
        Phase::Serving => ServingStatus::Serving,
        Phase::Starting | Phase::Draining | Phase::Closing => ServingStatus::NotServing,
    };
    HealthCheckResponse { status: status.into() }
}
