//! Compiles the protocol of the package service without `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["loggia/v1/package.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("package_descriptors.bin"), descriptors.encode_to_vec())?;
    // Maps with an order make equal packages equal bytes.
    tonic_prost_build::configure().btree_map(".").build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
