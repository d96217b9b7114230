//! A compiled expression whose cost is counted.
//!
//! The engine takes time in proportion to the text, but the factor may be the size of the expression: 70 µs a byte. A
//! lazily built automaton is fast on nearly all of them. How much of it a text made it build is known afterwards and
//! counted; where it gives up, the worst case is counted before the slow engine may try.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::{Captures, Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;

use crate::limits::{self, OverLimit};

/// Bytes of a compiled expression.
const MAX_SIZE: usize = 1 << 20;

/// Bytes of the automaton that is kept.
const CAPACITY: usize = 1 << 20;

/// The most states with which the engine is fast enough on any text.
const SMALL: usize = 48;

/// How many expressions are kept for the rest of a call.
const KEPT: usize = 64;

/// An expression in the syntax of the `regex` crate.
#[derive(Debug)]
pub(crate) struct Expression {
    regex: Regex,
    states: usize,
    automaton: Option<Automaton>,
}

#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    cache: RefCell<Cache>,
}

/// The expression is wrong, or too large once compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotCompiled;

type Known = HashMap<String, Option<Rc<Expression>>>;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Forgets what was compiled, at the end of a call.
pub(crate) fn forget() {
    KNOWN.with_borrow_mut(Known::clear);
}

impl Expression {
    /// The expression, compiled once for each call.
    pub(crate) fn shared(pattern: &str) -> Result<Rc<Self>, NotCompiled> {
        let known = KNOWN.with_borrow(|known| known.get(pattern).cloned());
        let expression = known.unwrap_or_else(|| {
            let compiled = Self::new(pattern).ok().map(Rc::new);
            KNOWN.with_borrow_mut(|known| {
                if known.len() >= KEPT {
                    known.clear();
                }
                known.insert(pattern.to_owned(), compiled.clone());
            });
            compiled
        });
        expression.ok_or(NotCompiled)
    }

    pub(crate) fn new(pattern: &str) -> Result<Self, NotCompiled> {
        let config = thompson::Config::new()
            .nfa_size_limit(Some(MAX_SIZE))
            .which_captures(thompson::WhichCaptures::Implicit);
        let nfa = thompson::Compiler::new().configure(config).build(pattern);
        // Compiling takes some nanoseconds a byte, and up to the limit also where it fails.
        let size = nfa.as_ref().map_or(MAX_SIZE, thompson::NFA::memory_usage);
        limits::work(pattern.len() + size).map_err(|_| NotCompiled)?;
        let nfa = nfa.map_err(|_| NotCompiled)?;
        let regex = RegexBuilder::new(pattern)
            .size_limit(MAX_SIZE)
            .dfa_size_limit(CAPACITY)
            .build()
            .map_err(|_| NotCompiled)?;
        let states = nfa.states().len();
        let automaton = if states > SMALL { Automaton::new(nfa) } else { None };
        Ok(Self { regex, states, automaton })
    }

    /// Whether it has groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.regex.captures_len() > 1
    }

    /// Whether it occurs in a text.
    ///
    /// # Errors
    /// If that is more work than the call has left.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, OverLimit> {
        let known = self.automaton.as_ref().and_then(|automaton| automaton.is_match(text).transpose());
        match known {
            Some(known) => known,
            None => {
                let slow = if self.automaton.is_some() { 1 } else { 16 };
                self.count(text, slow)?;
                Ok(self.regex.is_match(text))
            }
        }
    }

    /// The first occurrence with its groups.
    ///
    /// # Errors
    /// If that is more work than the call has left.
    pub(crate) fn captures<'t>(&self, text: &'t str) -> Result<Option<Captures<'t>>, OverLimit> {
        self.count(text, 8)?;
        Ok(self.regex.captures(text))
    }

    /// The engine itself, for a text whose worst case is counted here.
    pub(crate) fn counted(&self, text: &str) -> Result<&Regex, OverLimit> {
        self.count(text, 8)?;
        Ok(&self.regex)
    }

    /// Counts the worst case, in which every state is visited for every byte.
    fn count(&self, text: &str, share: usize) -> Result<(), OverLimit> {
        limits::work(1 + text.len().saturating_mul(self.states) / share)
    }
}

impl Automaton {
    fn new(nfa: thompson::NFA) -> Option<Self> {
        let config = DFA::config()
            .cache_capacity(CAPACITY)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(1))
            .minimum_bytes_per_state(Some(256));
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
        let cache = RefCell::new(dfa.create_cache());
        Some(Self { dfa, cache })
    }

    /// Nothing if it would take too many states to know.
    fn is_match(&self, text: &str) -> Result<Option<bool>, OverLimit> {
        let Ok(mut cache) = self.cache.try_borrow_mut() else { return Ok(None) };
        let (size, clears) = (cache.memory_usage(), cache.clear_count());
        let found = self.dfa.try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        let grown = cache.memory_usage().saturating_sub(size);
        let cleared = cache.clear_count().saturating_sub(clears).saturating_mul(CAPACITY);
        limits::work(1 + text.len() / 8 + grown + cleared)?;
        Ok(found.ok().map(|found| found.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Limits, Scope};

    /// Each place may be the one that counts, so nearly every set of states occurs.
    const OPEN: &str = "[ab]*a[ab]{1000}[ab]{1000}c";

    #[test]
    fn an_expression_that_is_slow_on_a_text_ends_the_call() {
        let text: String =
            (0..40_000_u32).map(|at| if at.is_power_of_two() || at % 7 == 3 { 'a' } else { 'b' }).collect();
        let scope = Scope::new(Limits::GENEROUS, Some(text.len()));
        let expression = Expression::new(OPEN).expect("compiles");
        assert_eq!(expression.is_match(&text), Err(OverLimit));
        assert!(scope.excess().is_some());
    }

    #[test]
    fn large_and_small_expressions_find_what_the_engine_finds() {
        let _scope = Scope::new(Limits::GENEROUS, Some(1 << 20));
        for pattern in ["^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "^.{1,253}$", "a|b", r"\bé", "(?i)x{3}$"] {
            let (expression, regex) =
                (Expression::new(pattern).expect(pattern), Regex::new(pattern).expect(pattern));
            for text in ["", "a", "web-1", "-x", "é", "aé", "XxX", "a\nb", &"y".repeat(300)] {
                assert_eq!(expression.is_match(text), Ok(regex.is_match(text)), "{pattern} on {text}");
            }
        }
    }
}
