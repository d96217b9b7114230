//! Reaching the server in a pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use loggia_grpc::Client;
use loggia_grpc::connection::Connection;
use tokio::time::timeout;

use super::{Starter, Target};
use crate::Settings;
use crate::names::{self, PORT};
use crate::pod_tls::{self, Unready};
use crate::settings::PodAddress;

/// How long a server that may not run yet has to accept a connection and answer a health check.
const REACH_TIME: Duration = Duration::from_millis(500);

/// What came of a health check.
#[derive(Debug)]
pub(super) enum Reached {
    /// It takes calls.
    Serving(Client),
    NotYet,
    /// The two ends refuse each other's certificates, and waiting will not change that.
    Untrusted(String),
}

impl Starter {
    /// A client of the server, if it is there, has the right certificate and takes calls.
    pub(super) async fn reach(&self, target: &Target, pod: Option<&Pod>) -> Reached {
        let Some(address) = self.address(target, pod) else { return Reached::NotYet };
        let Settings { namespace, cluster_domain, message_limit, tls, .. } = &*self.settings;
        let host = names::host(&target.service, namespace, cluster_domain);
        let connection = match &self.trust {
            None => Connection::new(&address),
            Some(trust) => {
                Connection::new(&address).and_then(|connection| connection.secured(&host, trust.clone()))
            }
        };
        let Ok(connection) = connection else { return Reached::NotYet };
        let client = Client::over(connection.clone(), *message_limit);
        let check = async {
            connection.ready().await.map_err(|error| Unready::of_connection(&error))?;
            client.is_serving().await.map_err(|_| Unready::of_alert(connection.alert()))
        };
        match (timeout(REACH_TIME, check).await, tls) {
            (Ok(Ok(true)), _) => Reached::Serving(client),
            (Ok(Err(Unready::Tls(failure))), Some(tls)) => {
                Reached::Untrusted(pod_tls::explain(&failure, tls, &host))
            }
            _ => Reached::NotYet,
        }
    }

    fn address(&self, target: &Target, pod: Option<&Pod>) -> Option<String> {
        let Settings { namespace, cluster_domain, .. } = &*self.settings;
        let host = match self.settings.address {
            // The dot at the end keeps the resolver from trying its search list.
            PodAddress::Dns => format!("{}.", names::host(&target.service, namespace, cluster_domain)),
            PodAddress::ServiceIp => in_brackets(target.cluster_ip.as_deref()?),
            PodAddress::PodIp => in_brackets(pod?.status.as_ref()?.pod_ip.as_deref()?),
        };
        Some(format!("{host}:{PORT}"))
    }
}

fn in_brackets(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}
