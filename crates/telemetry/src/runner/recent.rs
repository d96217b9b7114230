//! What happened lately: the last evaluations, the last errors, and figures of each function.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loggia_function::{CallId, Code};

use super::evaluated::Evaluated;

/// How many evaluations are remembered.
const MOST_EVALUATIONS: usize = 100;

/// How many errors are remembered.
const MOST_ERRORS: usize = 50;

/// The evaluations of a function that its percentiles are computed from.
const MOST_TIMES: usize = 64;

/// The most of a cause that is kept, in characters.
const LONGEST_CAUSE: usize = 1000;

/// The same for the name of an image.
const LONGEST_IMAGE: usize = 300;

/// What happened lately.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// The last one comes last.
    pub(crate) evaluations: VecDeque<Entry>,
    pub(crate) errors: VecDeque<Entry>,
    pub(crate) functions: HashMap<Arc<str>, Figures>,
}

/// One evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: SystemTime,
    pub(crate) call: CallId,
    pub(crate) image: Arc<str>,
    pub(crate) evaluator: &'static str,
    pub(crate) code: Code,
    pub(crate) total: Duration,
    pub(crate) queued: Option<Duration>,
    pub(crate) called: Option<Duration>,
    pub(crate) pod: Option<Arc<str>>,
    pub(crate) input: Option<usize>,
    pub(crate) output: Option<usize>,
    pub(crate) cause: Option<Arc<str>>,
}

/// The figures of one function.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) evaluator: &'static str,
    pub(crate) count: u64,
    pub(crate) failed: u64,
    pub(crate) last: SystemTime,
    times: VecDeque<Duration>,
}

// === impl Recent ===

impl Recent {
    /// `label` is the name that the function's figures are kept under.
    pub(crate) fn push(&mut self, label: &Arc<str>, evaluated: &Evaluated) {
        let Evaluated { at, call, evaluator, code, total, recorded, input, output, cause, image, traced: _ } =
            evaluated;
        let failed = *code != Code::Ok;
        let entry = Entry {
            at: *at,
            call: *call,
            image: cut(image, LONGEST_IMAGE),
            evaluator,
            code: *code,
            total: *total,
            queued: recorded.queued,
            called: evaluated.called(),
            pod: recorded.pod.clone(),
            input: *input,
            output: *output,
            cause: cause.as_ref().map(|cause| cut(cause, LONGEST_CAUSE)),
        };
        let figures = self.functions.entry(Arc::clone(label)).or_insert_with(|| Figures {
            evaluator,
            count: 0,
            failed: 0,
            last: *at,
            times: VecDeque::new(),
        });
        figures.evaluator = evaluator;
        figures.count += 1;
        figures.failed += u64::from(failed);
        figures.last = *at;
        keep(&mut figures.times, *total, MOST_TIMES);
        if failed {
            keep(&mut self.errors, entry.clone(), MOST_ERRORS);
        }
        keep(&mut self.evaluations, entry, MOST_EVALUATIONS);
    }
}

fn cut(text: &str, most: usize) -> Arc<str> {
    let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text).into()
}

fn keep<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(item);
}

// === impl Figures ===

impl Figures {
    /// The time that so many of a hundred evaluations took at most.
    pub(crate) fn percentile(&self, hundredth: usize) -> Option<Duration> {
        let mut times: Vec<_> = self.times.iter().copied().collect();
        times.sort_unstable();
        let rank = (times.len() * hundredth).div_ceil(100).max(1);
        times.get(rank - 1).copied()
    }
}
