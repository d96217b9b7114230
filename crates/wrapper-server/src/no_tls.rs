//! The program without TLS: flags that ask for it are refused.

use std::io;

use loggia_grpc::connection::Connection;
use loggia_grpc::server::Routes;

const NO_TLS: &str = "this wrapper-server speaks no TLS; the one in /home/nonroot/wrapper-server-tls of its image does, \
                      which the template of function pods has to copy";

/// Cannot exist without TLS.
#[derive(Debug)]
pub(crate) enum Identity {}

/// Cannot exist without TLS.
#[derive(Debug)]
pub(crate) enum Trust {}

// === impl Identity ===

impl Identity {
    pub(crate) fn named(cert: &str, key: &str, client_ca: &str) -> Result<Option<Self>, String> {
        if [cert, key, client_ca].iter().all(|file| file.is_empty()) {
            Ok(None)
        } else {
            Err(NO_TLS.to_owned())
        }
    }

    pub(crate) fn secure(self, _: Routes) -> io::Result<Routes> {
        match self {}
    }
}

// === impl Trust ===

impl Trust {
    pub(crate) fn named(_: &str, _: &str, _: (&str, &str), _: &str) -> Result<Self, String> {
        Err(NO_TLS.to_owned())
    }

    pub(crate) fn secure(&self, _: Connection) -> Result<Connection, String> {
        match *self {}
    }
}
