//! Has a function evaluator run a function: `evaluate ADDRESS IMAGE <resource-list.yaml`, or with the file as
//! a third argument.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use loggia_grpc::Client;
use loggia_grpc::wire::details::EvaluationError;

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stderr)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut resource_list = Vec::new();
    let (address, image) = match arguments.as_slice() {
        [address, image] => {
            std::io::stdin().read_to_end(&mut resource_list)?;
            (address, image)
        }
        [address, image, file] => {
            resource_list = std::fs::read(file)?;
            (address, image)
        }
        _ => return Err("write evaluate ADDRESS IMAGE [resource-list.yaml]".into()),
    };
    let client = Client::new(address, 6 << 20)?;
    match client.evaluate(image, resource_list.into(), Some(Duration::from_secs(60))).await {
        Ok(answer) => {
            std::io::stderr().write_all(&answer.log)?;
            std::io::stdout().write_all(&answer.resource_list)?;
            Ok(())
        }
        Err(status) => {
            eprintln!("{:?}: {}", status.code(), status.message());
            if let Some(details) = EvaluationError::of(&status) {
                eprintln!("{details:?}");
            }
            std::process::exit(1)
        }
    }
}
