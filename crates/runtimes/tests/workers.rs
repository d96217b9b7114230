//! The pool and workers that misbehave. This program is both: started as a worker, it plays one that does what its input
//! says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may"
)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::time::{Duration, Instant};

use loggia_function::{Budget, Call, Guarded, Image, Outcome, RunError, Runtime as _};
use loggia_runtimes::workers::Settings;
use loggia_runtimes::{Builtin, Workers};
use loggia_testing::eventually;
use rustix::process::{Signal, getpid, kill_process};

const MARK: u32 = 0x4c57_4731;
const READY: u32 = 0;
const DONE: u32 = 1;
const GROWN: u32 = 1 << 8;

type Story = fn() -> Pin<Box<dyn Future<Output = ()>>>;

const STORIES: &[(&str, Story)] = &[
    ("honest answers come back, from one worker", || Box::pin(honest_answers())),
    ("garbage costs the call", || Box::pin(garbage())),
    ("deaths are told apart", || Box::pin(deaths())),
    ("a slow call moves aside", || Box::pin(slow_moves_aside())),
    ("a call waits for its slot until its deadline", || Box::pin(waits_until_its_deadline())),
    ("a worker that has grown is replaced", || Box::pin(grown_is_replaced())),
    ("a stop ends everything", || Box::pin(a_stop_ends_everything())),
    ("a worker that does not start is reported", || Box::pin(does_not_start())),
    ("a call that needs more than the cheap limit runs again", || Box::pin(tried_again_with_more())),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("__worker") {
        return play();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, story) in STORIES {
        println!("test {name}");
        let story = async { tokio::time::timeout(Duration::from_secs(60), story()).await };
        runtime.block_on(story).expect("in time");
    }
    println!("{} stories ok", STORIES.len());
}

// === the worker ===

fn play() {
    let mut socket = UnixStream::from(rustix::io::dup(rustix::stdio::stdin()).unwrap());
    socket.write_all(&head(READY, 3, [0; 3])).unwrap();
    loop {
        let mut request = [0; 32];
        if socket.read_exact(&mut request).is_err() {
            return;
        }
        let number = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let name = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        let (length, memory) = (u64::from(name) + number(8), number(24));
        let mut body = vec![0; usize::try_from(length).unwrap()];
        socket.read_exact(&mut body).unwrap();
        let input = String::from_utf8_lossy(&body[name as usize..]).into_owned();
        let answer = answer_to(&input, memory, &socket);
        // The pool may have closed its end.
        let _ = socket.write_all(&answer);
    }
}

fn answer_to(input: &str, memory: u64, socket: &UnixStream) -> Vec<u8> {
    let pid = std::process::id().to_string();
    match input.split_once(' ').unwrap_or((input, "")) {
        ("pid", _) => done(DONE, &pid),
        ("grow", _) => done(DONE | GROWN, &pid),
        ("sleep", time) => {
            std::thread::sleep(Duration::from_millis(time.parse().unwrap()));
            done(DONE, &pid)
        }
        ("exit", code) => std::process::exit(code.parse().unwrap()),
        ("kill", _) => {
            kill_process(getpid(), Signal::TERM).unwrap();
            Vec::new()
        }
        ("noise", _) => b"this is not what an answer looks like, is it? No.".to_vec(),
        ("lie", _) => head(DONE, 0, [u64::MAX, 0, 0]),
        ("more", _) => done(DONE, &"x".repeat(2000)),
        ("twice", _) => [done(DONE, &pid), done(DONE, &pid)].concat(),
        ("close", _) => {
            socket.shutdown(std::net::Shutdown::Both).unwrap();
            std::thread::sleep(Duration::from_secs(600));
            Vec::new()
        }
        ("need", bytes) if memory < bytes.parse().unwrap() => std::process::exit(91),
        ("need", _) => done(DONE, &memory.to_string()),
        other => panic!("{other:?}"),
    }
}

fn done(status: u32, text: &str) -> Vec<u8> {
    let mut answer = head(status, 0, [text.len() as u64, 0, 0]);
    answer.extend_from_slice(text.as_bytes());
    answer
}

fn head(status: u32, exit: i32, lengths: [u64; 3]) -> Vec<u8> {
    let mut head = [MARK.to_ne_bytes(), status.to_ne_bytes(), exit.to_ne_bytes(), [0; 4]].concat();
    lengths.iter().for_each(|length| head.extend_from_slice(&length.to_ne_bytes()));
    head
}

// === the stories ===

fn settings() -> Settings {
    Settings {
        program: std::env::current_exe().unwrap(),
        memory: 1 << 30,
        cheap_memory: 1 << 20,
        cheap_slots: 1,
        slots: 1,
        output: 1000,
        timeout: Duration::from_secs(10),
        ..Settings::one_by_one()
    }
}

async fn run(builtin: &Builtin, input: &str, deadline: Option<Duration>) -> Result<Outcome, RunError> {
    let deadline = deadline.map(|deadline| tokio::time::Instant::now() + deadline);
    let budget = Budget { deadline, ..Budget::UNBOUNDED };
    let call = Call::of_image(Image::new("no-op"), input.to_owned().into(), budget);
    builtin.run(&call).await
}

async fn text(builtin: &Builtin, input: &str) -> String {
    let outcome = run(builtin, input, None).await.unwrap();
    String::from_utf8(outcome.output.to_bytes().to_vec()).unwrap()
}

async fn guarded(builtin: &Builtin, input: &str) -> Guarded {
    match run(builtin, input, None).await {
        Err(RunError::Guarded(guarded)) => guarded,
        other => panic!("{input}: {other:?}"),
    }
}

async fn honest_answers() {
    let workers = Workers::new(settings());
    let builtin = Builtin::in_workers(workers.clone());
    let first = text(&builtin, "pid").await;
    for _ in 0..10 {
        assert_eq!(text(&builtin, "pid").await, first);
    }
    assert_eq!(workers.count(), 1);
}

async fn garbage() {
    let builtin = Builtin::in_workers(Workers::new(settings()));
    for input in ["noise", "lie", "more", "close"] {
        let first = text(&builtin, "pid").await;
        let begin = Instant::now();
        match guarded(&builtin, input).await {
            Guarded::NotRun(_) | Guarded::Ended { .. } => {}
            other => panic!("{input}: {other:?}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(3), "{input}: {:?}", begin.elapsed());
        assert_ne!(text(&builtin, "pid").await, first, "{input}: the worker was used again");
    }
    // What comes unasked is never taken for the answer to the next call.
    let twice = run(&builtin, "twice", None).await;
    let next = text(&builtin, "need 1").await;
    assert_eq!(next, (1 << 20).to_string(), "{twice:?}");
}

async fn deaths() {
    let builtin = Builtin::in_workers(Workers::new(Settings { cheap_memory: 1 << 30, ..settings() }));
    assert_eq!(
        guarded(&builtin, "exit 91").await.to_string(),
        "needed more than 1024 MiB of memory and was stopped; --memory allows more"
    );
    assert_eq!(guarded(&builtin, "exit 92").await, Guarded::TooDeep);
    assert_eq!(guarded(&builtin, "exit 93").await, Guarded::Crashed);
    assert_eq!(guarded(&builtin, "exit 94").await, Guarded::Crashed);
    assert_eq!(guarded(&builtin, "exit 7").await.to_string(), "was ended by exit status 7");
    assert_eq!(guarded(&builtin, "kill").await.to_string(), "was ended by signal: terminated");
}

async fn slow_moves_aside() {
    let workers = Workers::new(settings());
    let builtin = Builtin::in_workers(workers.clone());
    let slow = {
        let builtin = builtin.clone();
        tokio::spawn(async move { text(&builtin, "sleep 3000").await })
    };
    eventually("the slow call has the slot", || workers.count() == 1).await;
    // There is one slot for cheap calls, and the slow call gives it back long before it ends.
    let begin = Instant::now();
    let quick = text(&builtin, "pid").await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let slow = slow.await.unwrap();
    assert_ne!(slow, quick);
    // A worker that was slowed down is not used again.
    assert_ne!(text(&builtin, "pid").await, slow);
}

async fn waits_until_its_deadline() {
    let workers = Workers::new(settings());
    let builtin = Builtin::in_workers(workers.clone());
    let slow: Vec<_> = (0..2)
        .map(|_| {
            let builtin = builtin.clone();
            tokio::spawn(async move { run(&builtin, "sleep 9000", None).await })
        })
        .collect();
    // Both slots are taken once the first of them has moved.
    eventually("both run", || workers.count() == 2).await;
    let ended = run(&builtin, "pid", Some(Duration::from_millis(300))).await;
    assert!(matches!(ended, Err(RunError::TimedOut)), "{ended:?}");
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    // Workers of calls that were given up are killed, and their slots are free.
    let begin = Instant::now();
    text(&builtin, "pid").await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

async fn grown_is_replaced() {
    let builtin = Builtin::in_workers(Workers::new(settings()));
    let first = text(&builtin, "grow").await;
    assert_ne!(text(&builtin, "pid").await, first);
}

async fn a_stop_ends_everything() {
    let workers = Workers::new(settings());
    let builtin = Builtin::in_workers(workers.clone());
    let running = {
        let builtin = builtin.clone();
        tokio::spawn(async move { run(&builtin, "sleep 9000", None).await })
    };
    eventually("it has a worker", || workers.count() == 1).await;
    let begin = Instant::now();
    workers.stop().await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(workers.count(), 0);
    assert!(matches!(running.await.unwrap(), Err(RunError::Interrupted(_))));
    assert!(matches!(run(&builtin, "pid", None).await, Err(RunError::Interrupted(_))));
}

async fn does_not_start() {
    for program in ["/nonexistent", "/bin/true"] {
        let settings = Settings { program: program.into(), ..settings() };
        let ended = guarded(&Builtin::in_workers(Workers::new(settings)), "pid").await;
        assert!(!ended.to_string().is_empty(), "{program}: {ended:?}");
    }
}

async fn tried_again_with_more() {
    let builtin = Builtin::in_workers(Workers::new(settings()));
    assert_eq!(text(&builtin, "need 1").await, (1 << 20).to_string());
    assert_eq!(text(&builtin, "need 2000000").await, (1 << 30).to_string());
    assert!(matches!(guarded(&builtin, "need 2000000000").await, Guarded::OverMemory { .. }));
}
