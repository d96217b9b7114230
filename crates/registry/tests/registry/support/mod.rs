//! A real registry, real images and things that stand between.

#![allow(dead_code, unreachable_pub, reason = "two test programs use it, each its own part")]

pub mod certificate;
pub mod http;
pub mod image;
pub mod issuer;
pub mod proxy;
pub mod server;

use std::time::Duration;

use loggia_registry::{Images, Platform, Retries, Settings, Timeouts};

/// Whether the programs are there; if not, a line says so.
pub fn installed() -> bool {
    let found = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file())
    };
    let there = found("docker-registry") && found("skopeo");
    if !there {
        println!("left out: docker-registry and skopeo are not installed (e2e/registry/install)");
    }
    there
}

/// Settings for amd64 that see nothing of the user who runs the tests, and do not wait long.
pub fn settings() -> Settings {
    Settings {
        platform: Platform::amd64(),
        retries: Retries { first_pause: Duration::from_millis(50), ..Retries::default() },
        timeouts: Timeouts { total: Duration::from_secs(20), ..Timeouts::default() },
        ..Settings::default()
    }
}

pub fn images() -> Images {
    Images::new(settings())
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
