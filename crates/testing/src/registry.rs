//! A real registry, real images and things that stand between.

pub mod http;
pub mod image;
pub mod issuer;
pub mod proxy;
pub mod server;
pub mod signer;

/// Whether the programs are there; if not, a line says so.
pub fn installed() -> bool {
    let found = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file())
    };
    let there = found("docker-registry") && found("skopeo");
    if !there {
        crate::missing("registry", "docker-registry and skopeo are not installed (e2e/registry/install)");
    }
    there
}

/// A port without a listener.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
