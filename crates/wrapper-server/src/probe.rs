//! `grpc-health-probe -addr HOST:PORT`: a health check of a server, with the flags and exit codes of the original.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use loggia_go::flag::{Error, FlagSet, Syntax};
use loggia_go::quote;
use loggia_grpc::connection::Connection;
use tokio::time::timeout;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::say;
use crate::tls::Trust;

const BAD_ARGUMENTS: u8 = 1;
const NO_CONNECTION: u8 = 2;
const CALL_FAILED: u8 = 3;
const NOT_SERVING: u8 = 4;

loggia_go::flags! {
    /// The flags of the original that are supported.
    struct Flags {
        addr: String, "The address of the server, HOST:PORT.";
        service: String, "The service to ask about; empty for all.";
        connect_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(1),
            "How long to wait for a connection.";
        rpc_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(1),
            "How long to wait for the answer.";
        tls: bool, "Speak TLS.";
        tls_ca_cert: String, "The authorities of the server, PEM.";
        tls_client_cert: String, "The certificate to show to the server, PEM.";
        tls_client_key: String, "Its key, PEM.";
        tls_server_name: String,
            "The name that the server's certificate must be for; empty for that of -addr.";
    }
}

#[derive(Debug)]
struct Question {
    address: String,
    service: String,
    connect_timeout: Wait,
    rpc_timeout: Wait,
    trust: Option<Trust>,
}

/// A time limit, and how it was written.
#[derive(Debug)]
struct Wait {
    span: Duration,
    written: loggia_go::Duration,
}

pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let question = match read(arguments) {
        Ok(question) => question,
        Err(Error::Help(usage)) => {
            say(usage.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(Error::Usage(reason)) => {
            say(&format!("error: {reason}"));
            return ExitCode::from(BAD_ARGUMENTS);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = match runtime {
        Ok(runtime) => runtime.block_on(ask(&question)),
        Err(error) => Err((NO_CONNECTION, format!("error: {error}"))),
    };
    match answer {
        Ok(()) => {
            say("status: SERVING");
            ExitCode::SUCCESS
        }
        Err((code, reason)) => {
            say(&reason);
            ExitCode::from(code)
        }
    }
}

fn read(arguments: Vec<OsString>) -> Result<Question, Error> {
    let mut flags = Flags::default();
    FlagSet::new("grpc-health-probe", Syntax::Go).table(&mut flags).parse(arguments)?;
    let Flags {
        addr: address,
        service,
        connect_timeout,
        rpc_timeout,
        tls,
        tls_ca_cert: ca,
        tls_client_cert: cert,
        tls_client_key: key,
        tls_server_name: name,
    } = flags;
    if address.is_empty() {
        return Err(Error::Usage("-addr not specified".to_owned()));
    }
    let trust = if tls {
        Some(Trust::named(&address, &ca, (&cert, &key), &name).map_err(Error::Usage)?)
    } else {
        None
    };
    let of_tls = [("ca-cert", ca), ("client-cert", cert), ("client-key", key), ("server-name", name)];
    if let (false, Some((flag, _))) = (tls, of_tls.iter().find(|(_, value)| !value.is_empty())) {
        return Err(Error::Usage(format!("specified -tls-{flag} without specifying -tls")));
    }
    let positive = |written: loggia_go::Duration, flag| match written.positive() {
        Some(span) => Ok(Wait { span, written }),
        None => Err(Error::Usage(format!("{flag} must be greater than zero"))),
    };
    Ok(Question {
        address,
        service,
        connect_timeout: positive(connect_timeout, "-connect-timeout")?,
        rpc_timeout: positive(rpc_timeout, "-rpc-timeout")?,
        trust,
    })
}

async fn ask(question: &Question) -> Result<(), (u8, String)> {
    let Question { address, service, connect_timeout, rpc_timeout, trust } = question;
    let wrong = |reason: String| (BAD_ARGUMENTS, format!("error: {reason}"));
    let mut connection = Connection::to(resolve(address).map_err(wrong)?);
    if let Some(trust) = trust {
        connection = trust.secure(connection).map_err(wrong)?;
    }
    match timeout(connect_timeout.span, connection.ready()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let text = format!("error: failed to connect service at {}: {error}", quote(address));
            return Err((NO_CONNECTION, text));
        }
        Err(_) => {
            let (address, within) = (quote(address), connect_timeout.written);
            let text = format!("timeout: failed to connect service {address} within {within}");
            return Err((NO_CONNECTION, text));
        }
    }
    let origin = connection.origin();
    let mut client = HealthClient::with_origin(connection, origin);
    let request = Request::new(HealthCheckRequest { service: service.clone() });
    let response = match timeout(rpc_timeout.span, client.check(request)).await {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) if status.code() == Code::Unimplemented => {
            let text = format!(
                "error: this server does not implement the grpc health protocol: {}",
                status.message()
            );
            return Err((CALL_FAILED, text));
        }
        Ok(Err(status)) => return Err((CALL_FAILED, format!("error: health rpc failed: {status}"))),
        Err(_) => {
            let text = format!("timeout: health rpc did not complete within {}", rpc_timeout.written);
            return Err((CALL_FAILED, text));
        }
    };
    match response.status() {
        ServingStatus::Serving => Ok(()),
        other => {
            Err((NOT_SERVING, format!("service unhealthy (responded with {})", quote(other.as_str_name()))))
        }
    }
}

/// Takes IP addresses and localhost only: for DNS a static program would have to load the image's own resolver.
fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| format!("-addr {address}: write HOST:PORT"))?;
    let port: u16 = port.parse().map_err(|_| format!("-addr {address}: {port} is no port"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let hosts: Vec<IpAddr> =
        match host {
            "" | "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            literal => vec![literal.parse().map_err(|_| {
                format!("-addr {address}: write an IP address, or localhost, before the port")
            })?],
        };
    Ok(hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect())
}
