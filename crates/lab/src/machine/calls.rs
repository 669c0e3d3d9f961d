//! The calls that a machine's API was asked, for its logs. They are not part of the saved world.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::Machines;

/// How many are remembered.
const KEPT: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Counts from the machine's start.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    /// Service and method, with a slash before each.
    pub(crate) path: String,
    /// The roles of the caller, in brackets.
    pub(crate) roles: String,
}

/// The last calls.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    count: u64,
    kept: VecDeque<Call>,
}

impl Calls {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.kept.iter()
    }
}

impl Machines {
    /// Remembers a call.
    pub(crate) fn note_call(&mut self, vmid: u32, path: &str, roles: &[String], at: Timestamp) {
        let Some(machine) = self.machines.get_mut(&vmid) else { return };
        let calls = &mut machine.calls;
        let roles = format!("[{}]", roles.join(" "));
        calls.kept.push_back(Call { number: calls.count, at, path: path.to_owned(), roles });
        calls.count += 1;
        if calls.kept.len() > KEPT {
            calls.kept.pop_front();
        }
    }
}
