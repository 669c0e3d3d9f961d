//! A build without the lab: a command that asks for it is told so.

use std::path::Path;

use ambient::Clock;
use model::spec::Spec;

use super::Outside;
use crate::args::NO_LAB;
use crate::exit::Exit;
use crate::view::Problem;

/// There is none.
pub type Lab = std::convert::Infallible;

/// Says that there is no lab.
pub async fn lab(_spec: &Spec, _folder: &Path, _seed: u64) -> Result<Outside, Problem> {
    Err(none())
}

/// Says that there is no lab.
pub fn lab_as_root(_spec: &Spec, _folder: &Path, _seed: u64) -> Result<Outside, Problem> {
    Err(none())
}

/// The time of the system: there is no other.
pub fn time(_folder: &Path) -> jiff::Timestamp {
    Clock::real().now()
}

fn none() -> Problem {
    Problem::new(Exit::Usage, "could not use the lab").hint(NO_LAB)
}
