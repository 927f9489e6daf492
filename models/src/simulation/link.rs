//! A link shared by uploads: max-min fair, none faster than its sender.

/// An upload in progress.
#[derive(Clone)]
struct Upload {
    index: usize,
    /// The sender's own speed, in bits a second.
    speed_bps: f64,
    /// What is left, as time at the sender's own speed.
    left_ms: f64,
    /// Share of its own speed that it gets.
    share: f64,
}

/// All uploads of one box, slowest sender first.
#[derive(Clone, Default)]
pub(super) struct Link {
    uploads: Vec<Upload>,
    settled_at_ms: u64,
}

impl Link {
    pub fn start(&mut self, index: usize, speed_bps: f64, left_ms: f64) {
        let speed_bps = speed_bps.max(1.0);
        let place = self.uploads.partition_point(|upload| upload.speed_bps <= speed_bps);
        self.uploads.insert(place, Upload { index, speed_bps, left_ms, share: 1.0 });
    }

    pub fn settle(&mut self, at_ms: u64) {
        let passed_ms = (at_ms - self.settled_at_ms) as f64;
        self.uploads.iter_mut().for_each(|upload| upload.left_ms -= passed_ms * upload.share);
        self.settled_at_ms = at_ms;
    }

    /// Fill the link from the slowest sender up: who wants less than an equal share of what is left
    /// gets it, the others share the rest equally (Bertsekas and Gallager, Data Networks, 6.5.2).
    pub fn share(&mut self, link_bps: f64) {
        let mut left_bps = link_bps.max(1.0);
        let count = self.uploads.len();
        for (before, upload) in self.uploads.iter_mut().enumerate() {
            let fair_bps = left_bps / (count - before) as f64;
            let given_bps = upload.speed_bps.min(fair_bps);
            upload.share = given_bps / upload.speed_bps;
            left_bps -= given_bps;
        }
    }

    fn first(&self) -> Option<(usize, f64)> {
        let ends = self.uploads.iter().enumerate().map(|(at, upload)| (at, upload.left_ms / upload.share));
        ends.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    pub fn next_finish_ms(&self, at_ms: u64) -> Option<u64> {
        let (_, left_ms) = self.first()?;
        Some(at_ms.max(self.settled_at_ms + libm::ceil(left_ms.max(0.0)) as u64))
    }

    pub fn finish(&mut self) -> Option<usize> {
        let (at, _) = self.first()?;
        Some(self.uploads.remove(at).index)
    }

    pub fn remove(&mut self, index: usize) -> bool {
        let found = self.uploads.iter().position(|upload| upload.index == index);
        found.map(|at| self.uploads.remove(at)).is_some()
    }

    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.uploads.iter().map(|upload| upload.index)
    }

    pub fn count(&self) -> usize {
        self.uploads.len()
    }

    pub fn used_bps(&self) -> f64 {
        self.uploads.iter().map(|upload| upload.speed_bps * upload.share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_senders_get_their_speed_and_fast_ones_share_the_rest() {
        let mut link = Link::default();
        for (index, speed_bps) in [(0, 700.0), (1, 100.0), (2, 400.0)] {
            link.start(index, speed_bps, 1_000.0);
        }
        link.share(900.0);
        let given: Vec<f64> = link.uploads.iter().map(|upload| upload.speed_bps * upload.share).collect();
        assert_eq!(given, [100.0, 400.0, 400.0]);
        assert!((link.used_bps() - 900.0).abs() < 1e-9);
        // The slowed one takes 1,000 × 700 ÷ 400 ms; the others 1,000, the slowest sender first.
        assert_eq!(link.next_finish_ms(0), Some(1_000));
        link.settle(1_000);
        assert_eq!(link.finish(), Some(1));
        assert_eq!(link.finish(), Some(2));
        link.share(900.0);
        // 1,000 of 1,750 ms at four sevenths have passed: 428.6 ms at full speed are left.
        assert_eq!(link.next_finish_ms(1_000), Some(1_429));
    }
}
