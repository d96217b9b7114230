//! Runs a built-in function as its program would: `filter IMAGE < resource-list.yaml`.

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let image = std::env::args().nth(1).unwrap_or_default();
    let Some((_, version)) = loggia_functions::find(&image) else {
        writeln!(std::io::stderr(), "filter: `{image}` is not built in")?;
        return Ok(ExitCode::from(2));
    };
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let output = version.filter(&input);
    std::io::stdout().write_all(output.stdout.as_bytes())?;
    std::io::stderr().write_all(output.stderr.as_bytes())?;
    Ok(ExitCode::from(u8::from(output.exit_code != 0)))
}
