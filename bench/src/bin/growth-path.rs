//! How time and memory of every built-in function grow with its list: at 1, 2, 4 and 8 MB, honest lists and hostile ones.
//!
//! Each measurement is a process of its own, this program again, which reports its processor time and its highest memory. The
//! exponent is the slope of the line through the four times on a logarithmic scale: 1 is linear, 2 is quadratic. A list
//! that a function refuses counts as any other; the time until it does so is what its sender can cost us.
//!
//! `growth-path [FUNCTION]` measures all functions or one, `--sizes 1,2` other sizes. A table in Markdown is printed, and
//! kept as `growth-path.md` and `.json` where `LOGGIA_BENCH_OUT` says.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it starts what it measures, and prints it"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};
use std::{env, fs};

use loggia_bench::{Group, Wanted};
use loggia_functions::{Limits, NoSchemaFiles, find};
use loggia_testing::growth::{Shape, processor_time, shapes};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// As the runner has it unless told otherwise, but for lists of up to 8 MB.
const LIMITS: Limits = Limits { output: 32 << 20, advice: "raise the limit" };
/// What is asked of the exponents of time and of memory.
const WANTED: f64 = 1.15;
/// Below this a time is mostly the start of a process, and says nothing about growth.
const NOTICEABLE: f64 = 0.05;
/// The word that makes this program measure one list.
const ENTRY: &str = "__measure";

/// One list, measured.
#[derive(Clone, Copy, Default)]
struct Measured {
    seconds: f64,
    /// MB at the highest.
    memory: f64,
    refused: bool,
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [entry, at, bytes] = arguments.as_slice()
        && entry == ENTRY
    {
        let shapes = shapes();
        let shape = shapes.get(at.parse::<usize>()?).ok_or("no such list")?;
        println!("{}", measure_here(shape, bytes.parse()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut wanted = String::new();
    let mut sizes = vec![1.0, 2.0, 4.0, 8.0];
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        if argument == "--sizes" {
            let list = rest.next().ok_or("--sizes needs a list of megabytes")?;
            sizes = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
        } else {
            wanted = argument;
        }
    }
    compare(&wanted, &sizes)
}

fn compare(wanted: &str, sizes: &[f64]) -> Outcome<ExitCode> {
    let mut group = Group::new("growth-path", "Growth of time with the list");
    let mut table = header(sizes);
    print!("{table}");
    for (at, shape) in shapes().iter().enumerate().filter(|(_, shape)| shape.image.starts_with(wanted)) {
        let measured =
            sizes.iter().map(|size| measure(at, (size * 1e6) as usize)).collect::<Outcome<Vec<_>>>()?;
        let times: Vec<f64> = measured.iter().map(|one| one.seconds).collect();
        let exponent = exponent(sizes, &times);
        let row = row(shape, &measured, exponent);
        print!("{row}");
        table.push_str(&row);
        let longest = times.iter().copied().fold(0.0, f64::max);
        let allowed = if longest < NOTICEABLE { Wanted::Nothing } else { Wanted::AtMost(WANTED) };
        let values: Vec<(String, f64)> =
            sizes.iter().zip(&times).map(|(size, time)| (format!("{size} MB"), *time)).collect();
        let values: Vec<(&str, f64)> = values.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        group.add(&format!("{shape:?}"), "s", &values, exponent, allowed);
    }
    if let Some(folder) = env::var_os("LOGGIA_BENCH_OUT") {
        let folder = std::path::PathBuf::from(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("growth-path.md"), table)?;
    }
    match group.finish() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            println!("\n{error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn header(sizes: &[f64]) -> String {
    let names: String = sizes.iter().map(|size| format!(" {size} MB |")).collect();
    let lines = "---|".repeat(sizes.len());
    format!("| function | list | |{names} exponent | memory at the end |\n|---|---|---|{lines}---|---|\n")
}

fn row(shape: &Shape, measured: &[Measured], exponent: f64) -> String {
    let mut out =
        format!("| {} | {} | {} |", shape.image, shape.name, if shape.hostile { "hostile" } else { "" });
    for one in measured {
        let refused = if one.refused { " refused" } else { "" };
        write!(out, " {:.2} s{refused} |", one.seconds).expect("a string takes all");
    }
    let memory = measured.last().map_or(0.0, |one| one.memory);
    writeln!(out, " {exponent:.2} | {memory:.0} MB |").expect("a string takes all");
    out
}

/// Measures in a process of its own.
fn measure(at: usize, bytes: usize) -> Outcome<Measured> {
    let output =
        Command::new(env::current_exe()?).args([ENTRY, &at.to_string(), &bytes.to_string()]).output()?;
    if !output.status.success() {
        let name = shapes().get(at).map_or_else(String::new, |shape| format!("{shape:?}"));
        return Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let [seconds, memory, refused] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("not a measurement: {text}").into());
    };
    Ok(Measured { seconds: seconds.parse()?, memory: memory.parse()?, refused: refused == "true" })
}

/// Seconds, MB and whether a limit was met, as text.
fn measure_here(shape: &Shape, bytes: usize) -> Outcome<String> {
    let (_, version) = find(shape.image).ok_or("is not in the catalog")?;
    let list = shape.list(bytes);
    let start = processor_time();
    let output = version.filter_within(list.as_bytes(), &NoSchemaFiles, LIMITS);
    let seconds = processor_time() - start;
    let refused = output.stderr.contains(" and was stopped; ");
    Ok(format!("{seconds} {} {refused}", highest_memory()?))
}

/// The most memory this process had, in MB.
fn highest_memory() -> Outcome<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

/// The slope of the line through the points, both logarithmic.
fn exponent(sizes: &[f64], values: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        sizes.iter().zip(values).map(|(size, value)| (size.ln(), value.max(5e-3).ln())).collect();
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    covariance / variance
}
