//! The whole program, as people and scripts run it: arguments in, text and exit code out.
//!
//! All tests are in one binary, because linking costs more than running them.

mod files;
mod killed;
mod lab_runs;
mod served;
mod shell;
