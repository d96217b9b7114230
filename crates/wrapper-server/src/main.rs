//! See the library.

fn main() -> std::process::ExitCode {
    wrapper_server::main()
}
