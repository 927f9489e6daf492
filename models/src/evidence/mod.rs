//! Evidence about a candidate, with its uncertainty: off-policy values from logged propensities, an
//! anytime-valid interval around them, and the sequential tests of a rollout's gates.
//!
//! All of it treats a decision as a bandit's: what it earns doesn't depend on the decisions before.
//! In a fleet it does, a ball placed now is load later, so these values are biased wherever the
//! candidate would lead the fleet into other states; a twin that replays the same arrivals is not.

mod gate;
mod off_policy;
mod wager;

pub use gate::{Arm, ArmTest, GateState};
pub use off_policy::{Direct, Interval, OffPolicy, Sample, Unsupported, Values};
pub use wager::Wager;
