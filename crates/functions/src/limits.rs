//! What one call of a function may produce, and how much it may work for that.
//!
//! A config of a few bytes can ask for more text than there is memory, so text is counted before it is made
//! ([`produce`]). Where work can grow faster than the list, it is counted as well ([`work`]). Both counts belong to the
//! call that runs on this thread; [`Scope`] begins and ends it. Once a limit is met every further count fails, so a
//! function may stop at any of them, and whatever it then returns, the call ends with [`Excess`].

use std::cell::{Cell, RefCell};
use std::fmt;

use loggia_krm::{Resource, ResultItem};
use loggia_yaml::{EmitOptions, Node, node_to_string_within};

use crate::regexp;

/// Steps of work for each byte of the list, and the steps that any list has.
const STEPS_PER_BYTE: usize = 64;
const FREE_STEPS: usize = 1 << 24;

/// The same where the list came as a tree, whose size is not known.
const STEPS_OF_TREE: usize = 1 << 32;

/// What a call may produce.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of the list that the function writes, and of what it adds to the list on the way.
    pub output: usize,
    /// What to do if that is not enough, at the end of the message.
    pub advice: &'static str,
}

/// Which limit a call met, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    kind: Kind,
    limit: usize,
    /// The resource that the function was at; empty if that is not known.
    subject: String,
    advice: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Output,
    Work,
}

/// The error of a count that failed. Its text is not shown: [`Excess`] takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverLimit;

/// The counts of the call on this thread.
#[derive(Clone)]
struct Meter {
    output: Cell<usize>,
    work: Cell<usize>,
    limits: Cell<Limits>,
    steps: Cell<usize>,
    met: Cell<Option<Kind>>,
    subject: RefCell<String>,
}

thread_local! {
    static METER: Meter = const { Meter::unlimited() };
}

/// A call with limits, from here to [`Scope::finish`].
pub(crate) struct Scope(());

// === impl Limits ===

impl Limits {
    /// Far more than a package has, for callers without a limit of their own.
    pub const GENEROUS: Self = Self { output: 1 << 30, advice: "make the function's config smaller" };
}

impl Default for Limits {
    fn default() -> Self {
        Self::GENEROUS
    }
}

// === impl Meter ===

impl Meter {
    const fn unlimited() -> Self {
        Self {
            output: Cell::new(usize::MAX),
            work: Cell::new(usize::MAX),
            limits: Cell::new(Limits { output: usize::MAX, advice: "" }),
            steps: Cell::new(usize::MAX),
            met: Cell::new(None),
            subject: RefCell::new(String::new()),
        }
    }

    fn set(&self, from: &Self) {
        self.output.set(from.output.get());
        self.work.set(from.work.get());
        self.limits.set(from.limits.get());
        self.steps.set(from.steps.get());
        self.met.set(from.met.get());
        self.subject.replace(from.subject.take());
    }

    fn spend(&self, left: &Cell<usize>, amount: usize, kind: Kind) -> Result<(), OverLimit> {
        if let Some(rest) = left.get().checked_sub(amount) {
            left.set(rest);
            return Ok(());
        }
        left.set(0);
        if self.met.get().is_none() {
            self.met.set(Some(kind));
        }
        Err(OverLimit)
    }
}

// === impl Scope ===

impl Scope {
    /// Begins a call on a list that is so many bytes long, if that is known.
    pub(crate) fn new(limits: Limits, input: Option<usize>) -> Self {
        let steps = input
            .map_or(STEPS_OF_TREE, |bytes| bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(FREE_STEPS));
        METER.with(|meter| {
            meter.set(&Meter {
                output: Cell::new(limits.output),
                work: Cell::new(steps),
                limits: Cell::new(limits),
                steps: Cell::new(steps),
                ..Meter::unlimited()
            });
        });
        Self(())
    }

    /// What the call met so far, if anything.
    pub(crate) fn excess(&self) -> Option<Excess> {
        METER.with(|meter| {
            let kind = meter.met.get()?;
            let Limits { output, advice } = meter.limits.get();
            let limit = match kind {
                Kind::Output => output,
                Kind::Work => meter.steps.get(),
            };
            Some(Excess { kind, limit, subject: meter.subject.borrow().clone(), advice })
        })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        METER.with(|meter| meter.set(&Meter::unlimited()));
        regexp::forget();
    }
}

// === counting ===

/// Counts bytes that are about to be added to the list, its results included.
pub(crate) fn produce(bytes: usize) -> Result<(), OverLimit> {
    METER.with(|meter| meter.spend(&meter.output, bytes, Kind::Output))
}

/// Counts a text that is about to take the place of another.
pub(crate) fn produce_instead(new: usize, old: usize) -> Result<(), OverLimit> {
    produce(new.saturating_sub(old))
}

/// How many bytes may still be added.
pub(crate) fn output_left() -> usize {
    METER.with(|meter| meter.output.get())
}

/// Counts steps of work, each of some nanoseconds.
pub(crate) fn work(steps: usize) -> Result<(), OverLimit> {
    METER.with(|meter| meter.spend(&meter.work, steps, Kind::Work))
}

/// Names the resource that the function is at, for the error, if a limit was met there; and tells whether one was.
pub(crate) fn blame(item: &Resource) -> bool {
    METER.with(|meter| {
        if meter.met.get().is_none() {
            return false;
        }
        let mut subject = meter.subject.borrow_mut();
        if subject.is_empty() {
            *subject = format!("{} `{}`", shortened(item.kind()), shortened(item.name()));
        }
        true
    })
}

/// Adds a result if it may still be added.
pub(crate) fn push(results: &mut Vec<ResultItem>, item: ResultItem) -> Result<(), OverLimit> {
    produce(size_of(&item))?;
    results.push(item);
    Ok(())
}

/// About what a result takes as text.
pub(crate) fn size_of(item: &ResultItem) -> usize {
    const WORDS: usize = 32;
    let reference = item.resource_ref.as_ref().map_or(0, |reference| {
        reference.api_version.len()
            + reference.kind.len()
            + reference.name.len()
            + reference.namespace.len()
            + WORDS
    });
    let field = item.field.as_ref().map_or(0, |field| {
        let length = |value: &Option<String>| value.as_ref().map_or(0, String::len);
        field.path.len() + length(&field.current_value) + length(&field.proposed_value) + WORDS
    });
    let file = item.file.as_ref().map_or(0, |file| file.path.len() + WORDS);
    item.message.len() + reference + field + file + WORDS
}

/// [`str::replace`], unless the new text is longer than may still be produced, or the work is too much.
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> Result<String, OverLimit> {
    work(1 + text.len() / 8)?;
    let count = text.matches(from).count();
    let length = count.saturating_mul(to.len()).saturating_add(text.len() - count * from.len());
    // What was there is counted already, or came with the list; an intermediate text is not output yet.
    if length.saturating_sub(text.len()) > output_left() {
        produce(length)?;
    }
    Ok(text.replace(from, to))
}

/// A node as text, unless that is longer than may still be produced.
pub(crate) fn written(node: &Node) -> Result<String, OverLimit> {
    let most = output_left();
    let text = node_to_string_within(node, EmitOptions::default(), most);
    if text.is_none() {
        produce(usize::MAX)?;
    }
    text.ok_or(OverLimit)
}

/// Runs on a thread with a larger stack, within the limits of the call on this one.
///
/// # Errors
/// If there is no such thread; inside, the panic that ended it.
pub(crate) fn on_thread<T: Send + 'static>(
    name: &str,
    stack: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::Result<T>> {
    let meter = METER.with(Meter::clone);
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack);
    let handle = thread.spawn(move || {
        METER.with(|own| own.set(&meter));
        (run(), METER.with(Meter::clone))
    })?;
    Ok(handle.join().map(|(outcome, meter)| {
        METER.with(|own| own.set(&meter));
        outcome
    }))
}

fn shortened(text: &str) -> &str {
    const LONGEST: usize = 100;
    &text[..text.floor_char_boundary(LONGEST)]
}

// === impl Excess ===

impl Excess {
    /// The list itself is larger than the limit.
    pub(crate) fn of_output(limits: Limits) -> Self {
        Self { kind: Kind::Output, limit: limits.output, subject: String::new(), advice: limits.advice }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, limit, subject, advice } = self;
        if !subject.is_empty() {
            write!(f, "{subject}: ")?;
        }
        match kind {
            Kind::Output => {
                write!(f, "the function would write more than {limit} bytes and was stopped; {advice}")
            }
            Kind::Work => write!(
                f,
                "the function needs more than {limit} steps, which is {STEPS_PER_BYTE} for each byte of its input, and was \
                 stopped; this limit is fixed: simplify the function's config or split the package"
            ),
        }
    }
}

// === impl OverLimit ===

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("over a limit of the call")
    }
}

impl std::error::Error for OverLimit {}

impl From<OverLimit> for String {
    fn from(error: OverLimit) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_before_it_is_made() {
        let scope = Scope::new(Limits { output: 1000, advice: "ask for less" }, Some(0));
        assert_eq!(replaced("x-x", "x", "yy").as_deref(), Ok("yy-yy"));
        assert_eq!(scope.excess(), None);
        let long = "z".repeat(100);
        assert_eq!(replaced(&"x".repeat(100), "x", &long), Err(OverLimit));
        let text = scope.excess().map(|excess| excess.to_string());
        let expected = "the function would write more than 1000 bytes and was stopped; ask for less";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn limits_end_with_their_call_and_go_with_it_to_other_threads() {
        let scope = Scope::new(Limits { output: 10, ..Limits::GENEROUS }, Some(0));
        let counted =
            on_thread("test", 1 << 20, || (produce(4), produce(4))).expect("a thread").expect("no panic");
        assert_eq!(counted, (Ok(()), Ok(())));
        assert_eq!(produce(4), Err(OverLimit));
        drop(scope);
        assert_eq!(produce(1 << 40), Ok(()));
    }
}
