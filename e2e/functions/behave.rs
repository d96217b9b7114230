//! A function that does as its input says, for tests. `rustc` alone builds it.
//!
//! It looks for a line `behave: WHAT`: `sleep MILLISECONDS`, `exit CODE`, `results`, `flood`, `die`, `eat
//! MEGABYTES`, `write PATH`, `fill MEGABYTES` (of /tmp, for ever). Otherwise what comes in goes out. On standard error it tells which pod it ran in, and what it was
//! called with.

use std::io::{Read as _, Write as _};
use std::time::Duration;

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
}

fn main() {
    let mut list = String::new();
    if std::io::stdin().read_to_string(&mut list).is_err() {
        std::process::exit(9);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    eprintln!("pod {}", host.trim());
    for word in std::env::args().skip(1) {
        eprintln!("word {word}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    eprintln!("capabilities {}", capabilities.trim());
    let words = list.lines().find_map(|line| line.trim().strip_prefix("behave: ")).unwrap_or_default();
    let (what, argument) = words.split_once(' ').unwrap_or((words, "0"));
    let number: u64 = argument.parse().unwrap_or_default();
    let mut out = std::io::stdout().lock();
    match what {
        "sleep" => std::thread::sleep(Duration::from_millis(number)),
        "exit" => {
            eprintln!("it broke");
            std::process::exit(number as i32);
        }
        "results" => {
            let _ = out.write_all(list.as_bytes());
            let _ = out.write_all(b"results:\n- message: not good\n  severity: error\n");
            let _ = out.flush();
            std::process::exit(1);
        }
        // SAFETY: it takes a number and touches no memory of ours.
        "die" => drop(unsafe { raise(9) }),
        "eat" => {
            // Written to, so that it is really there.
            let mut eaten = Vec::new();
            for _ in 0..number {
                eaten.push(vec![1_u8; 1 << 20]);
            }
            eprintln!("{} eaten", eaten.len());
        }
        "fill" => {
            let _ = std::fs::create_dir("/tmp");
            let mut file = std::fs::File::create("/tmp/filling").expect("a file");
            for _ in 0..number {
                if let Err(error) = file.write_all(&vec![1_u8; 1 << 20]) {
                    eprintln!("not written: {error}");
                }
            }
            std::thread::sleep(Duration::from_secs(3600));
        }
        "write" => match std::fs::write(argument, "mine") {
            Ok(()) => eprintln!("written"),
            Err(error) => eprintln!("not written: {error}"),
        },
        "flood" => {
            let chunk = vec![b'x'; 1 << 16];
            while out.write_all(&chunk).is_ok() {}
        }
        _ => {}
    }
    let _ = out.write_all(list.as_bytes());
}
