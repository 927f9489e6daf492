//! How fast users are expected to upload: the current session, else the user's recent mean, else
//! the median of the fleet.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::domain::amounts::AMOUNT_MAX;
use crate::domain::ball::ball_key;
use crate::domain::{Amounts, Ball, Dimension};

/// Most users whose speed is remembered; the one longest without an upload is forgotten first.
pub const USERS_MAX: usize = 100_000;
/// Weight of one upload in its user's mean.
const GAIN: f64 = 0.3;
/// Buckets of the histogram that the median comes from: 4 to the doubling, from 1 bit/s on.
const BUCKETS: usize = 4 * 46;
/// Uploads after which the histogram is halved, so that the median follows the present.
const UPLOADS_MAX: u32 = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct UserSpeed {
    mean_bps: f64,
    last_lease_id: u64,
}

/// Speeds of recent uploads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Speeds {
    users: BTreeMap<u64, UserSpeed>,
    /// (last lease, user): the first is forgotten first.
    order: BTreeSet<(u64, u64)>,
    histogram: Vec<u32>,
    uploads: u32,
}

impl Speeds {
    /// Learn from a finished upload, when its ball names a user and a size.
    pub fn observe(&mut self, ball: &Ball, lease_id: u64, stayed_ms: u64) {
        let (Some(user), Some(bytes)) = (user_key(ball), ball.size_bytes) else {
            return;
        };
        let bps = bytes as f64 * 8_000.0 / stayed_ms.max(1) as f64;
        self.count(bps);
        let known = self.users.get(&user).copied();
        if let Some(known) = known {
            self.order.remove(&(known.last_lease_id, user));
        }
        let mean_bps = known.map_or(bps, |known| known.mean_bps + GAIN * (bps - known.mean_bps));
        let last_lease_id = known.map_or(lease_id, |known| known.last_lease_id.max(lease_id));
        self.users.insert(user, UserSpeed { mean_bps, last_lease_id });
        self.order.insert((last_lease_id, user));
        while self.users.len() > USERS_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.users.remove(&oldest);
        }
    }

    fn count(&mut self, bps: f64) {
        self.histogram.resize(BUCKETS, 0);
        let bucket = (libm::log2(bps.max(1.0)) * 4.0) as usize;
        self.histogram[bucket.min(BUCKETS - 1)] += 1;
        self.uploads += 1;
        if self.uploads >= UPLOADS_MAX {
            self.histogram.iter_mut().for_each(|count| *count /= 2);
            self.uploads = self.histogram.iter().sum();
        }
    }

    /// The fleet's median, in bits per second, at the middle of its bucket.
    fn median_bps(&self) -> Option<f64> {
        let mut below = 0;
        let bucket = self.histogram.iter().position(|count| {
            below += count;
            2 * below >= self.uploads.max(1)
        })?;
        Some(libm::exp2((bucket as f64 + 0.5) / 4.0))
    }

    /// The speed expected of a ball's upload, in bits per second; `None`: nothing is known at all.
    pub fn expected_bps(&self, ball: &Ball) -> Option<f64> {
        let of_user = || Some(self.users.get(&user_key(ball)?)?.mean_bps);
        ball.speed_bps.or_else(of_user).or_else(|| self.median_bps())
    }

    /// The ball's demand; where it states no bandwidth, the expected speed stands for it.
    pub fn expected_demand(&self, ball: &Ball) -> Amounts {
        let mut demand = ball.demand;
        let link = &mut demand.0[Dimension::BandwidthBps as usize];
        if *link == 0
            && let Some(bps) = self.expected_bps(ball)
        {
            *link = (bps as u64).min(AMOUNT_MAX);
        }
        demand
    }
}

fn user_key(ball: &Ball) -> Option<u64> {
    ball.user.as_deref().map(|user| ball_key(&ball.tenant, user) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(user: &str, bytes: u64) -> Ball {
        let mut ball = Ball::new("x");
        ball.user = Some(user.to_owned());
        ball.size_bytes = Some(bytes);
        ball
    }

    #[test]
    fn session_then_user_then_median() {
        let mut speeds = Speeds::default();
        let mut ball = upload("a", 1_000);
        assert_eq!(speeds.expected_bps(&ball), None);
        for lease_id in 0..9 {
            // 1,000 bytes in 8 s: 1,000 bit/s.
            speeds.observe(&upload("b", 1_000), lease_id, 8_000);
        }
        let median = speeds.expected_bps(&ball).unwrap();
        assert!((median / 1_000.0 - 1.0).abs() < 0.2, "{median}");
        speeds.observe(&ball, 10, 1_000);
        assert_eq!(speeds.expected_bps(&ball), Some(8_000.0));
        ball.speed_bps = Some(5.0);
        assert_eq!(speeds.expected_bps(&ball), Some(5.0));
        assert_eq!(speeds.expected_demand(&ball).0[2], 5);
    }

    #[test]
    fn the_memory_of_users_is_bounded_and_the_oldest_goes_first() {
        let mut speeds = Speeds::default();
        for lease_id in 0..USERS_MAX as u64 + 10 {
            speeds.observe(&upload(&format!("user-{lease_id}"), 1_000), lease_id, 1);
        }
        assert_eq!(speeds.users.len(), USERS_MAX);
        assert_eq!(speeds.order.len(), USERS_MAX);
        assert!(!speeds.users.contains_key(&user_key(&upload("user-0", 1)).unwrap()));
    }
}
