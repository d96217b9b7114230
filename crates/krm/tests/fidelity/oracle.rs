//! The original, as a program to ask: `e2e/oracle/krm`, where it is built.

use crate::question::Answer;

/// A running oracle. It ends with its standard input.
pub(crate) struct Oracle(loggia_testing::Oracle);

impl Oracle {
    /// The oracle, or none with a line that says so.
    pub(crate) fn start() -> Option<Self> {
        loggia_testing::Oracle::launch("LOGGIA_KRM_ORACLE", "krm-oracle", "e2e/oracle/krm").map(Self)
    }

    pub(crate) fn ask(&mut self, mode: &str, texts: &[&[u8]]) -> Answer {
        match self.0.ask(mode, texts) {
            loggia_testing::Answer::Text(body) => Answer::Text(String::from_utf8_lossy(&body).into_owned()),
            loggia_testing::Answer::Error(text) => Answer::Error(text),
            loggia_testing::Answer::Panic(text) => Answer::Panic(text),
        }
    }
}
