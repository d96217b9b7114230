//! The flows, on small packages whose functions are commands of this machine.

mod apply;
mod replace;
mod status;
mod update;

use std::sync::Arc;

use loggia_function::Chain;
use loggia_krm::Files;
use loggia_render::{Options, Quiet};
use loggia_runtimes::workers::Settings;
use loggia_runtimes::{Builtin, ExecCommand, Workers};

use super::{Creation, Handled, KptfilePatch, PackageConfig, TaskError, TaskHandler};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";
const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata:\n  colour: blue\n";

fn runtime() -> Chain {
    let exec = ExecCommand::new(true, ExecCommand::TIMEOUT);
    Chain::new(vec![Arc::new(Builtin::new(Workers::new(Settings::one_by_one()))), Arc::new(exec)])
}

/// Runs a flow with a handler.
async fn with_handler<T>(flow: impl AsyncFnOnce(TaskHandler<'_>) -> T) -> T {
    let (options, runtime) = (Options::default(), runtime());
    flow(TaskHandler { options: &options, runtime: &runtime }).await
}

async fn apply(files: Files, creation: &Creation) -> Result<Handled, TaskError> {
    with_handler(async |handler| handler.apply_task(files, creation, &mut Quiet).await).await
}

async fn render(files: Files) -> Handled {
    with_handler(async |handler| handler.render(files, false, &mut Quiet).await)
        .await
        .expect("paths are fine")
}

fn files(entries: &[(&str, &str)]) -> Files {
    entries.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// A package with one ConfigMap and these commands as mutators.
fn package(commands: &[&str]) -> Files {
    files(&[("Kptfile", &kptfile(commands)), ("cm.yaml", CM)])
}

fn kptfile(commands: &[&str]) -> String {
    let steps: String = commands.iter().map(|command| format!("  - exec: |-\n      {command}\n")).collect();
    if steps.is_empty() { KPTFILE.to_owned() } else { format!("{KPTFILE}pipeline:\n  mutators:\n{steps}") }
}

fn text<'a>(files: &'a Files, path: &str) -> &'a str {
    let content = files.get(path).unwrap_or_else(|| panic!("{path} is not in {:?}", files.keys()));
    std::str::from_utf8(content).expect("is text")
}

fn creation(task: &str) -> Creation {
    Creation { tasks: vec![task.to_owned()], ..Creation::default() }
}

fn deployment() -> PackageConfig {
    PackageConfig {
        package_path: "base/app".to_owned(),
        repository: "edge".to_owned(),
        namespace: "default".to_owned(),
        deployment: true,
    }
}

fn patch() -> KptfilePatch {
    KptfilePatch::default()
}
