//! The entries of a workload's list, as the engine's protocol has them.

use crate::access::{AccessSpec, RegionSpec};
use crate::arrival::ArrivalSpec;
use crate::distribution::DistributionSpec;
use crate::rate::RateSpec;
use serde::{Deserialize, Serialize};

/// A filament, or several of a kind. Names are for [`FollowSpec`] and for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FilamentSpec<T> {
    /// Operations at arrivals, whatever the target does.
    Open(OpenSpec),
    /// Users who wait, think and ask again.
    Closed(ClosedSpec),
    /// Sessions that arrive, each making some requests as a closed loop.
    PartlyOpen(PartlyOpenSpec),
    /// An operation at the end of every N-th of another filament's.
    Follow(FollowSpec),
    /// Bank transactions ([`crate::filaments::tpcb`]).
    Tpcb(TpcbSpec),
    /// Business scaling units ([`crate::filaments::spc1`]).
    Spc1(Spc1Spec),
    /// What somebody recorded.
    Trace(TraceSpec<T>),
}

/// An open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// How arrivals scatter.
    pub arrival: ArrivalSpec,
    /// How many arrive per second.
    pub rate: RateSpec,
    /// How many there are; None: no end.
    #[serde(default)]
    pub count: Option<u64>,
    /// What is done.
    pub access: AccessSpec,
}

/// A closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// The users' name.
    #[serde(default)]
    pub name: Option<String>,
    /// How many users.
    pub users: u32,
    /// How long after a completion the next operation starts [ns].
    pub think: DistributionSpec,
    /// What is done; a sequential location begins at its beginning for each user.
    pub access: AccessSpec,
}

/// Sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartlyOpenSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// How arrivals of sessions scatter.
    pub arrival: ArrivalSpec,
    /// How many sessions arrive per second.
    pub rate: RateSpec,
    /// How many requests a session makes; 0 counts as 1.
    pub requests: DistributionSpec,
    /// How long after a completion the next request starts [ns].
    pub think: DistributionSpec,
    /// What is done; a sequential location begins at its beginning for each session.
    pub access: AccessSpec,
}

/// A filament that waits for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Whom it follows, by name; where that is several filaments, it hears from each.
    pub leader: String,
    /// Which operations of the leader it waits for: every so many-th.
    pub every: u64,
    /// How long after the leader's completion its operation starts [ns].
    pub delay: DistributionSpec,
    /// What is done.
    pub access: AccessSpec,
}

/// A TPC-B-like load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpcbSpec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// How many branches.
    pub scale: u64,
    /// How many clients there are, without a pause; nothing to an open load.
    pub clients: u32,
    /// How many transactions arrive per second (Poisson); None: closed.
    #[serde(default)]
    pub rate: Option<RateSpec>,
    /// Where the bank lies.
    #[serde(default)]
    pub region: RegionSpec,
}

/// An SPC-1-like load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spc1Spec {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// How many business scaling units, each of 50 operations per second.
    pub bsus: u32,
    /// Where the storage units lie.
    #[serde(default)]
    pub region: RegionSpec,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec<T> {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// What its reader needs to know.
    #[serde(flatten)]
    pub input: T,
}

impl<T> FilamentSpec<T> {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Open(spec) => spec.name.as_deref(),
            Self::Closed(spec) => spec.name.as_deref(),
            Self::PartlyOpen(spec) => spec.name.as_deref(),
            Self::Follow(spec) => spec.name.as_deref(),
            Self::Tpcb(spec) => spec.name.as_deref(),
            Self::Spc1(spec) => spec.name.as_deref(),
            Self::Trace(spec) => spec.name.as_deref(),
        }
    }

    /// Returns how many ids it takes.
    pub(super) fn ids(&self) -> u32 {
        match self {
            Self::Closed(spec) => spec.users,
            Self::Tpcb(spec) if spec.rate.is_none() => spec.clients,
            Self::Spc1(spec) => spec.bsus,
            _ => 1,
        }
    }
}
