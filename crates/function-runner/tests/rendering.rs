//! Rendering by way of a real function-runner: answers, fallback, a runner that dies, one that talks nonsense.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use loggia_function::Chain;
use loggia_grpc::Remote;
use loggia_krm::Files;
use loggia_render::{Options, Quiet, Rendered, Renderer, Source};
use loggia_runtimes::workers::Settings;
use loggia_runtimes::{Builtin, Workers};

mod support;

use support::{Functions, eventually};

const CM: &str =
    "# ours\n\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm # short\ndata:\n  colour: blue\n";

fn package(images: &[&str]) -> Source {
    let mut kptfile =
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  mutators:\n".to_owned();
    for image in images {
        kptfile.push_str(&format!("    - image: {image}\n"));
    }
    Source::Files(Files::from([
        ("Kptfile".to_owned(), kptfile.into_bytes()),
        ("cm.yaml".to_owned(), CM.as_bytes().to_vec()),
    ]))
}

async fn render(address: &str, images: &[&str]) -> Rendered {
    let mut runtime = Chain::default();
    runtime.push(Builtin::new(Workers::new(Settings::one_by_one())));
    runtime.push(Remote::new(address, Remote::MESSAGE_LIMIT, Some(Duration::from_secs(20))).unwrap());
    let options = Options::default();
    let renderer = Renderer { options: &options, runtime: &runtime };
    renderer.render(&package(images), &mut Quiet).await.unwrap()
}

fn cause(rendered: &Rendered) -> String {
    rendered.error.as_ref().unwrap().cause.to_string()
}

#[tokio::test]
async fn what_is_not_built_in_goes_to_the_runner_and_comes_back_whole() {
    let functions =
        Functions::new().with("paint", &["example.com/paint:v1"], "sed s/blue/green/; echo a note >&2");
    let server = functions.serve(&[]);
    let rendered = render(&server.address(), &["no-op", "example.com/paint:v1"]).await;
    assert!(rendered.succeeded(), "{:?}", rendered.error);
    let changes = rendered.changes().unwrap();
    assert_eq!(changes.writes["cm.yaml"], CM.replace("blue", "green"));
    assert_eq!(rendered.results.items[1].stderr, "a note");
}

#[tokio::test]
async fn what_nobody_has_is_not_found_and_says_who_was_asked() {
    let server = Functions::new().serve(&[]);
    let rendered = render(&server.address(), &["example.com/unknown:v1"]).await;
    let cause = cause(&rendered);
    assert!(cause.starts_with("function \"example.com/unknown:v1\" not found"), "{cause}");
    assert!(cause.contains("does not have it either"), "{cause}");
}

#[tokio::test]
async fn a_function_that_fails_far_away_fails_with_its_own_words() {
    let script = "cat >/dev/null; echo 'kind: ResourceList'; echo 'items: []'; echo 'results: [{message: bad name, severity: error}]'; echo oops >&2; exit 3";
    let functions = Functions::new().with("fails", &["example.com/fails:v1"], script);
    let server = functions.serve(&[]);
    let rendered = render(&server.address(), &["example.com/fails:v1"]).await;
    let result = &rendered.results.items[0];
    assert_eq!((result.exit_code, result.stderr.trim()), (3, "oops"));
    assert_eq!(result.results.to_string(), "[error]: bad name");
    assert_eq!(result.results.0[0].resource_ref, None, "it names no resource");
    let changes = rendered.changes().unwrap();
    assert_eq!(changes.writes.keys().collect::<Vec<_>>(), ["Kptfile"], "only the status is written");
}

#[tokio::test]
async fn a_runner_that_dies_in_the_middle_fails_the_render_soon_and_clearly() {
    let functions = Functions::new().with(
        "slow",
        &["example.com/slow:v1"],
        "touch \"$(dirname \"$0\")/../running\"; sleep 30; cat",
    );
    let server = functions.serve(&[]);
    let address = server.address();
    let begin = Instant::now();
    let (rendered, ()) = tokio::join!(render(&address, &["no-op", "example.com/slow:v1"]), async {
        eventually("the function runs", || functions.note("running").exists()).await;
        server.signal(rustix::process::Signal::KILL);
    });
    assert!(begin.elapsed() < Duration::from_secs(10));
    let cause = cause(&rendered);
    assert!(
        cause.starts_with("func eval \"example.com/slow:v1\" failed: rpc error: code = Unavailable"),
        "{cause}"
    );
    assert_eq!(rendered.executed, 1, "what ran before counts");
    assert_eq!(rendered.changes().unwrap().writes.keys().collect::<Vec<_>>(), ["Kptfile"]);
}

#[tokio::test]
async fn nobody_at_the_address_is_said_with_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let rendered = render(&free, &["example.com/any:v1"]).await;
    assert!(
        cause(&rendered).ends_with(&format!("is a function-runner listening at {free}?")),
        "{}",
        cause(&rendered)
    );
}

#[tokio::test]
async fn garbage_from_a_function_is_an_error_of_that_function() {
    let functions = Functions::new()
        .with("garbage", &["example.com/garbage:v1"], "cat >/dev/null; echo ']['")
        .with("silent", &["example.com/silent:v1"], "cat >/dev/null");
    let server = functions.serve(&[]);
    for (image, text) in [
        ("example.com/garbage:v1", "output is no ResourceList"),
        ("example.com/silent:v1", "wrote nothing to standard output"),
    ] {
        let rendered = render(&server.address(), &[image]).await;
        assert!(cause(&rendered).contains(text), "{}", cause(&rendered));
        assert_eq!(rendered.changes().unwrap().writes.keys().collect::<Vec<_>>(), ["Kptfile"]);
    }
}

#[tokio::test]
async fn garbage_on_the_wire_is_an_error_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(8) {
            let mut heard = [0; 64];
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nnot at all what was asked for");
        }
    });
    let begin = Instant::now();
    let rendered = render(&address, &["example.com/any:v1"]).await;
    assert!(
        cause(&rendered).starts_with("func eval \"example.com/any:v1\" failed: rpc error: "),
        "{}",
        cause(&rendered)
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_message_over_the_limit_says_which_flags_to_raise() {
    let server = Functions::new().serve(&[]);
    let runtime = Remote::new(&server.address(), 100, None).unwrap();
    let options = Options::default();
    let renderer = Renderer { options: &options, runtime: &runtime };
    let rendered = renderer.render(&package(&["example.com/any:v1"]), &mut Quiet).await.unwrap();
    assert!(cause(&rendered).contains("larger than max"), "{}", cause(&rendered));
}
