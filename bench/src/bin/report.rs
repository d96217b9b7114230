//! Writes `RESULTS.md` and a picture for each group of figures: `report FIGURES FOLDER`.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use loggia_bench::{Figure, Group};

/// The order in which a reader wants to know; what is not named here comes after.
const ORDER: [&str; 8] = [
    "exec-path",
    "builtin-path",
    "pod-path",
    "render-path",
    "functions-path",
    "yaml-path",
    "registry-path",
    "wrapper",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(figures), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: report FIGURES FOLDER".into());
    };
    let mut groups = Vec::new();
    for entry in fs::read_dir(&figures)? {
        groups.push(Group::read(&entry?.path())?);
    }
    groups.sort_by_key(|group| {
        let place = ORDER.iter().position(|name| *name == group.name).unwrap_or(ORDER.len());
        (place, group.name.clone())
    });
    let pictures = folder.join("results");
    fs::create_dir_all(&pictures)?;
    let mut text = format!("# Results\n\nWritten by `make bench`. {}\n", machine());
    text.push_str(
        "\nFigures of one row come from one run, side by side; absolute ones depend on the machine.\n",
    );
    for group in &groups {
        fs::write(pictures.join(format!("{}.svg", group.name)), picture(group))?;
        text.push_str(&section(group));
    }
    fs::write(folder.join("RESULTS.md"), text)?;
    Ok(())
}

/// When, on what, with which versions.
fn machine() -> String {
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
        line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let says = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
    };
    let memory: f64 =
        first("/proc/meminfo", "MemTotal").split(' ').next().unwrap_or_default().parse().unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![
        says("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default(),
        format!("{cores} cores of {}", first("/proc/cpuinfo", "model name")),
        format!("{:.0} GiB", memory / f64::from(1 << 20)),
    ];
    facts.extend(says("uname", &["-sr"]));
    facts.extend(says("rustc", &["--version"]));
    facts.extend(says("go", &["version"]));
    facts.extend(says("git", &["describe", "--always", "--dirty"]).map(|commit| format!("Loggia {commit}")));
    format!("{}.", facts.join("; "))
}

fn section(group: &Group) -> String {
    let mut text = format!("\n## {}\n\n![{}](results/{}.svg)\n\n", group.title, group.title, group.name);
    text.push_str("| What | Values | Ratio | Wanted | |\n|---|---|---|---|---|\n");
    for figure in &group.figures {
        let values: Vec<_> = figure
            .values
            .iter()
            .map(|(who, value)| format!("{who} {} {}", short(*value), figure.unit))
            .collect();
        let met = if figure.is_met() { "" } else { "**missed**" };
        let ratio = short(figure.ratio);
        let _ = writeln!(
            text,
            "| {} | {} | {ratio} | {} | {met} |",
            figure.what,
            values.join("; "),
            figure.wanted
        );
    }
    text
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

const WIDTH: usize = 760;
const BAR: usize = 300;
const LINE: usize = 18;

/// One block of bars for each figure, each as long as its share of the longest in the block.
fn picture(group: &Group) -> String {
    let mut body = String::new();
    let mut y = 34;
    for figure in &group.figures {
        let _ =
            write!(body, "<text x=\"16\" y=\"{}\" class=\"what\">{}</text>", y + 12, escape(&figure.what));
        let _ = write!(
            body,
            "<text x=\"{}\" y=\"{}\" class=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - 16,
            y + 12,
            if figure.is_met() { "met" } else { "missed" },
            escape(&format!("{}× (wanted: {})", short(figure.ratio), figure.wanted))
        );
        y += LINE + 2;
        y = bars(&mut body, figure, y) + 12;
    }
    let title = escape(&group.title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" role=\"img\" aria-label=\"{title}\">\
         <style>text{{font:12px system-ui,sans-serif;fill:#24292f}}.title{{font-size:15px;font-weight:600}}.what{{font-weight:600}}\
         .met{{fill:#1a7f37}}.missed{{fill:#cf222e}}.first{{fill:#2f6feb}}.other{{fill:#9aa4b2}}rect.paper{{fill:#fff}}\
         @media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}rect.paper{{fill:#0d1117}}.met{{fill:#3fb950}}.missed{{fill:#f85149}}}}</style>\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{y}\"/><text x=\"16\" y=\"22\" class=\"title\">{title}</text>{body}</svg>\n"
    )
}

/// The bars of a figure; where the next one begins.
fn bars(body: &mut String, figure: &Figure, mut y: usize) -> usize {
    let longest = figure.values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    for (at, (who, value)) in figure.values.iter().enumerate() {
        let length = (value / longest * BAR as f64).max(1.0);
        let class = if at == 0 { "first" } else { "other" };
        let _ = write!(
            body,
            "<text x=\"28\" y=\"{}\">{}</text><rect class=\"{class}\" x=\"280\" y=\"{}\" width=\"{length:.0}\" height=\"12\" rx=\"2\"/><text x=\"{:.0}\" y=\"{}\">{} {}</text>",
            y + 11,
            escape(who),
            y + 1,
            288.0 + length,
            y + 11,
            short(*value),
            escape(&figure.unit)
        );
        y += LINE;
    }
    y
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use loggia_bench::Wanted;

    use super::*;

    #[test]
    fn a_group_becomes_a_table_and_a_picture() {
        let mut group = Group::new("some-path", "Some & path");
        group.add("calls", "calls/s", &[("ours", 200.0), ("theirs", 50.0)], 4.0, Wanted::AtLeast(5.0));
        let table = section(&group);
        assert!(
            table.contains(
                "| calls | ours 200 calls/s; theirs 50.0 calls/s | 4.00 | at least 5 | **missed** |"
            ),
            "{table}"
        );
        let picture = picture(&group);
        assert!(picture.contains("Some &amp; path") && picture.contains("width=\"75\""), "{picture}");
        assert!(group.finish().is_err());
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 0.00012, 0.25, 3.21987, 42.42, 1234.5].map(short).into();
        assert_eq!(shown, ["0.00", "1.20e-4", "0.25", "3.22", "42.4", "1234"]);
    }
}
