//! What stands for TLS in the program that does without.

use std::io;

use loggia_grpc::connection::Connection;
use loggia_grpc::server::Routes;

const NO_TLS: &str = "this wrapper-server speaks no TLS; the one in /home/nonroot/wrapper-server-tls of its image does, \
                      which the template of function pods has to copy";

/// There is none.
#[derive(Debug)]
pub(crate) enum Identity {}

/// There is none, either.
#[derive(Debug)]
pub(crate) enum Trust {}

// === impl Identity ===

impl Identity {
    pub(crate) fn named(cert: &str, key: &str, client_ca: &str) -> Result<Option<Self>, String> {
        match [cert, key, client_ca].iter().all(|file| file.is_empty()) {
            true => Ok(None),
            false => Err(NO_TLS.to_owned()),
        }
    }

    pub(crate) fn proven_by(self, _: Routes) -> io::Result<Routes> {
        match self {}
    }
}

// === impl Trust ===

impl Trust {
    pub(crate) fn named(_: &str, _: &str, _: (&str, &str), _: &str) -> Result<Self, String> {
        Err(NO_TLS.to_owned())
    }

    pub(crate) fn asked_of(&self, _: Connection) -> Result<Connection, String> {
        match *self {}
    }
}
