//! The figures of a benchmark: printed by it, kept as a file for the report.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::{Deserialize, Serialize};

/// All that one benchmark measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The name of the benchmark, and of its picture.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// In the order in which they were measured.
    pub figures: Vec<Figure>,
}

/// One thing that was measured, side by side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// Of the values.
    pub unit: String,
    /// Who took part, and the value of each.
    pub values: Vec<(String, f64)>,
    /// What the values come to: mostly the quotient of two, each from the same run.
    pub ratio: f64,
    /// What we ask of that.
    pub wanted: Wanted,
}

/// What is asked of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Wanted {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// It is told, and no more.
    Nothing,
}

// === impl Group ===

impl Group {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(name: &str, title: &str) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), figures: Vec::new() }
    }

    /// Keeps a figure.
    pub fn add(&mut self, what: &str, unit: &str, values: &[(&str, f64)], ratio: f64, wanted: Wanted) {
        let values = values.iter().map(|(who, value)| ((*who).to_owned(), *value)).collect();
        self.figures.push(Figure { what: what.to_owned(), unit: unit.to_owned(), values, ratio, wanted });
    }

    /// Keeps all figures for the report, if `LOGGIA_BENCH_OUT` says where.
    ///
    /// # Errors
    /// If a figure is not what is wanted, naming it; or if the file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if let Some(folder) = env::var_os("LOGGIA_BENCH_OUT").map(PathBuf::from) {
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{}.json", self.name)), serde_json::to_vec_pretty(&self)?)?;
        }
        let missed = self.figures.iter().filter(|figure| !figure.is_met());
        let missed: Vec<_> = missed
            .map(|figure| format!("{} ({:.2}, {})", figure.what, figure.ratio, figure.wanted))
            .collect();
        if missed.is_empty() {
            return Ok(());
        }
        Err(io::Error::other(format!("not what is wanted: {}", missed.join("; "))))
    }

    /// Reads what a benchmark kept.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}

// === impl Figure ===

impl Figure {
    /// Whether the ratio is as wanted.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.wanted {
            Wanted::AtMost(limit) => self.ratio <= limit,
            Wanted::AtLeast(limit) => self.ratio >= limit,
            Wanted::Nothing => true,
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
            Self::Nothing => f.write_str("–"),
        }
    }
}
