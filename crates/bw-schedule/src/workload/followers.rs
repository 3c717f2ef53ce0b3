//! Who follows whom.

use super::{FilamentSpec, FollowSpec, Problem, WorkloadError, WorkloadSpec};
use crate::filaments::leader::Follower;
use std::collections::HashMap;

impl<T> WorkloadSpec<T> {
    /// Returns the place of each name.
    fn names(&self) -> Result<HashMap<&str, usize>, Problem> {
        let mut names = HashMap::new();
        for (place, filament) in self.filaments.iter().enumerate() {
            let Some(name) = filament.name() else {
                continue;
            };
            if let Some(other) = names.insert(name, place) {
                let message = format!("filaments[{other}] has the same name: names must differ");
                return Err(self.problem(place, message));
            }
        }
        Ok(names)
    }

    /// Returns who follows each filament.
    pub(super) fn followers(&self) -> Result<Vec<Vec<Follower>>, WorkloadError> {
        let names = self
            .names()
            .map_err(|problem| WorkloadError(vec![problem]))?;
        let ids = self.ids()?;
        let mut followers = vec![Vec::new(); self.filaments.len()];
        let mut leaders = vec![None; self.filaments.len()];
        let mut problems = Vec::new();
        for (place, filament) in self.filaments.iter().enumerate() {
            let FilamentSpec::Follow(FollowSpec { leader, every, .. }) = filament else {
                continue;
            };
            let Some(&at) = names.get(leader.as_str()) else {
                let message = format!("leader {leader:?} is no filament's name: name one");
                problems.push(self.problem(place, message));
                continue;
            };
            leaders[place] = Some(at);
            let id = ids[place].start;
            // Zero is refused when the follower itself is built.
            let every = (*every).max(1);
            followers[at].push(Follower { id, every });
        }
        problems.extend(self.circles(&leaders));
        if problems.is_empty() {
            Ok(followers)
        } else {
            Err(WorkloadError(problems))
        }
    }

    /// Returns the filaments that wait for themselves: nothing would ever start.
    fn circles(&self, leaders: &[Option<usize>]) -> Vec<Problem> {
        let in_circle = |&place: &usize| {
            let mut ahead = leaders[place];
            for _ in 0..leaders.len() {
                match ahead {
                    Some(next) if next != place => ahead = leaders[next],
                    other => return other == Some(place),
                }
            }
            false
        };
        (0..leaders.len())
            .filter(in_circle)
            .map(|place| {
                let message = "it waits for itself, through its leaders: nothing would ever start";
                self.problem(place, message.into())
            })
            .collect()
    }
}
