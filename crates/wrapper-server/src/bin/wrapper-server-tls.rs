//! The same, with TLS for certain.

fn main() -> std::process::ExitCode {
    wrapper_server::main()
}
