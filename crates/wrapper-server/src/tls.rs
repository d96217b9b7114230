//! TLS for the server, and for the probe that connects to it.

use std::io;
use std::path::PathBuf;

use loggia_grpc::connection::Connection;
use loggia_grpc::server::Routes;
use loggia_grpc::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls};

/// The server's certificate and key, and the CA of its callers if they must have a certificate.
#[derive(Debug)]
pub(crate) struct Identity(ServerFiles);

/// The CA and the name that the probe expects of the server, and the probe's own certificate.
#[derive(Debug)]
pub(crate) struct Trust {
    files: ClientFiles,
    name: String,
}

// === impl Identity ===

impl Identity {
    /// The files that flags name, if they name any. Nothing is read yet.
    pub(crate) fn named(cert: &str, key: &str, client_ca: &str) -> Result<Option<Self>, String> {
        let files = ServerFiles::named(cert, key, client_ca).map_err(|error| error.to_string())?;
        Ok(files.map(Self))
    }

    /// The files that the function must not see.
    pub(crate) fn secrets(&self) -> Option<PathBuf> {
        Some(self.0.key.clone())
    }

    /// Serves the routes over TLS only. The files are read again whenever they change.
    pub(crate) fn secure(self, routes: Routes) -> io::Result<Routes> {
        let tls = ServerTls::new(self.0).map_err(io::Error::other)?;
        tokio::spawn(tls.clone().follow_changes());
        Ok(routes.over_tls(Some(tls)))
    }
}

// === impl Trust ===

impl Trust {
    /// What the probe's flags say. Without a name the server must be the one of the address.
    pub(crate) fn named(address: &str, ca: &str, own: (&str, &str), name: &str) -> Result<Self, String> {
        // An empty image has no authorities of its own that could be trusted instead.
        if ca.is_empty() {
            return Err("specified -tls without -tls-ca-cert, the authorities of the server".to_owned());
        }
        let identity = match own {
            ("", "") => None,
            ("", _) => return Err("specified -tls-client-key without specifying -tls-client-cert".to_owned()),
            (_, "") => return Err("specified -tls-client-cert without specifying -tls-client-key".to_owned()),
            (cert, key) => Some((cert.into(), key.into())),
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = if name.is_empty() { host } else { name };
        Ok(Self { files: ClientFiles { ca: ca.into(), identity }, name: name.to_owned() })
    }

    /// Connects over TLS.
    pub(crate) fn secure(&self, connection: Connection) -> Result<Connection, String> {
        let trust = ClientTls::new(self.files.clone()).map_err(|error| error.to_string())?;
        let no_name = || format!("-tls-server-name {}: that is no name of a server", self.name);
        connection.secured(&self.name, trust).map_err(|_| no_name())
    }
}
