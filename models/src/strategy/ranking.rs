//! What a strategy reads (the view) and what it writes (the ranking).

use std::collections::BTreeMap;

use crate::config::{Balance, FleetConfig};
use crate::decision::{CANDIDATES_MAX, Refusal};
use crate::domain::{Amounts, Ball, Class};
use crate::fleet::{BoxState, Fleet, HORIZONS, survival};
use crate::forecast::HORIZONS_MS;
use crate::policy::PlacementPolicy;

/// The fleet as one ball's strategy sees it.
pub struct View<'a> {
    fleet: &'a Fleet,
    ball: &'a Ball,
    draw: u64,
    is_critical: bool,
    is_panicking: bool,
    group_handle: Option<u32>,
    /// Most balls a box may hold to take this one: the mode of balance.
    count_most: usize,
    /// Whether the ball has a wish or the balance a limit; most have none, and one look tells.
    is_particular: bool,
}

impl<'a> View<'a> {
    /// The view of `fleet` for `ball`, with `draw` for chance.
    #[must_use]
    pub fn new(fleet: &'a Fleet, ball: &'a Ball, draw: u64) -> Self {
        let group_handle = fleet.group_handle(ball);
        let mut view = Self {
            fleet,
            ball,
            draw,
            is_critical: ball.class == Class::Critical,
            is_panicking: fleet.is_panicking(),
            group_handle,
            count_most: usize::MAX,
            is_particular: ball.role.is_some() || group_handle.is_some(),
        };
        view.count_most = view.count_limit();
        view.is_particular |= view.count_most < usize::MAX;
        view
    }

    /// What the mode of balance allows: only the emptiest of the boxes that may take the ball, or
    /// only empty ones while there are any. There is always one left.
    fn count_limit(&self) -> usize {
        let balance = self.fleet.config().balance;
        if balance == Balance::Free {
            return usize::MAX;
        }
        let able = self.fleet.boxes().iter().filter(|state| self.admit(state).is_ok());
        let least = able.map(BoxState::live_count).min().unwrap_or(usize::MAX);
        if balance == Balance::NonEmpty && least > 0 { usize::MAX } else { least }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &FleetConfig {
        self.fleet.config()
    }

    /// The boxes, sorted by id.
    #[must_use]
    pub fn boxes(&self) -> &[BoxState] {
        self.fleet.boxes()
    }

    /// The ball's demand with the bandwidth its user is expected to reach, where it states none.
    #[must_use]
    pub fn expected_demand(&self) -> Amounts {
        self.fleet.expected_demand(self.ball)
    }

    /// Whether staleness and ejection are disregarded.
    #[must_use]
    pub fn is_panicking(&self) -> bool {
        self.is_panicking
    }

    /// The ball.
    #[must_use]
    pub fn ball(&self) -> &Ball {
        self.ball
    }

    /// Engine time, in milliseconds.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.fleet.at_ms()
    }

    /// The chance of this decision.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.draw
    }

    /// The active placement policy.
    #[must_use]
    pub fn policy(&self) -> Option<&PlacementPolicy> {
        self.fleet.policy().map(|policy| &**policy)
    }

    /// Virtual time of the turns among balls like this one.
    #[must_use]
    pub fn turn(&self) -> f64 {
        self.fleet.turn(self.ball)
    }

    /// Work of the ball at speed 1, in milliseconds: stated, else its expected stay.
    #[must_use]
    pub fn work_ms(&self) -> f64 {
        self.ball.work_ms.unwrap_or_else(|| self.fleet.expected_residence_ms(self.ball))
    }

    /// Probability that the ball is still there at each horizon, and the number of horizons that
    /// lie within its expected stay.
    #[must_use]
    pub fn stay(&self) -> ([f64; HORIZONS], usize) {
        let residence_ms = self.fleet.expected_residence_ms(self.ball);
        let within = HORIZONS_MS.iter().take_while(|h| **h as f64 <= residence_ms).count();
        (survival(residence_ms), within)
    }

    /// The worst load of `state` from now to the end of the ball's expected stay, ball added.
    #[must_use]
    pub fn load_ahead(&self, state: &BoxState) -> f64 {
        let (survival, horizons) = self.stay();
        state.load_ahead(&self.ball.demand, &survival, horizons)
    }

    /// Whether `state` may take the ball.
    ///
    /// # Errors
    /// The first reason why not.
    #[inline(always)]
    pub fn admit(&self, state: &BoxState) -> Result<(), Refusal> {
        match state.gate() {
            None => {}
            // Too few boxes remain: old news and past failures count for less than no place.
            Some(Refusal::Stale | Refusal::Ejected) if self.is_panicking => {}
            Some(refusal) => return Err(refusal),
        }
        if self.is_particular {
            self.admit_particular(state)?;
        }
        state.fits(&self.ball.demand, self.is_critical)
    }

    #[inline(never)]
    fn admit_particular(&self, state: &BoxState) -> Result<(), Refusal> {
        if self.ball.role.is_some() && self.ball.role.as_deref() != state.spec.role.as_deref() {
            return Err(Refusal::Role);
        }
        if self.group_handle.is_some_and(|handle| handle != state.handle) {
            return Err(Refusal::Group);
        }
        if state.live_count() > self.count_most {
            return Err(Refusal::Balance);
        }
        Ok(())
    }

    /// Call `visit` with every box that may take the ball, in the order of ids; count the others.
    #[inline]
    pub fn each(&self, ranking: &mut Ranking, mut visit: impl FnMut(&mut Ranking, u32, &BoxState)) {
        for (position, state) in self.fleet.boxes().iter().enumerate() {
            match self.admit(state) {
                Ok(()) => visit(ranking, position as u32, state),
                Err(refusal) => ranking.refused[refusal as usize] += 1,
            }
        }
    }

    /// The box at `position`.
    #[must_use]
    pub fn at(&self, position: u32) -> &BoxState {
        &self.fleet.boxes()[position as usize]
    }
}

/// A box with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Lower is better.
    pub score: f64,
    /// Decides between equal scores; lower is better. Then the box id decides.
    pub tie: f64,
    /// Position of the box in the fleet's order of ids.
    pub position: u32,
}

impl Scored {
    /// Best first, with an order for everything: scores that are no number come last.
    pub(super) fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.score
            .total_cmp(&other.score)
            .then(self.tie.total_cmp(&other.tie))
            .then(self.position.cmp(&other.position))
    }

    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        // Scores are numbers here, and nearly always differ.
        if self.score != other.score {
            return self.score < other.score;
        }
        self.order(other).is_lt()
    }
}

/// The best boxes of one decision, and a count of the refused ones. Reused between decisions.
#[derive(Debug, Clone)]
pub struct Ranking {
    best: [Scored; CANDIDATES_MAX],
    count: usize,
    refused: [u32; Refusal::ALL.len()],
    propensity: f64,
    is_spoilt: bool,
    /// Scratch of strategies that sample: positions of the boxes that may take the ball.
    pub(super) eligible: Vec<u32>,
    /// The same with their scores.
    pub(super) scored: Vec<Scored>,
}

impl Default for Ranking {
    fn default() -> Self {
        let none = Scored { score: 0.0, tie: 0.0, position: 0 };
        Self {
            best: [none; CANDIDATES_MAX],
            count: 0,
            refused: [0; Refusal::ALL.len()],
            propensity: 1.0,
            is_spoilt: false,
            eligible: Vec::new(),
            scored: Vec::new(),
        }
    }
}

impl Ranking {
    /// Make ready for another decision.
    pub fn clear(&mut self) {
        self.count = 0;
        self.refused = [0; Refusal::ALL.len()];
        self.propensity = 1.0;
        self.is_spoilt = false;
        self.eligible.clear();
        self.scored.clear();
    }

    /// Offer a box; it is kept when it is among the best so far. A score that is no number is the
    /// worst of all.
    #[inline(always)]
    pub fn offer(&mut self, scored: Scored) {
        // One comparison settles nearly all of them; what it can't tell is looked at in full.
        if self.count == CANDIDATES_MAX && scored.score > self.best[CANDIDATES_MAX - 1].score {
            return;
        }
        self.keep(scored);
    }

    #[inline(never)]
    fn keep(&mut self, mut scored: Scored) {
        if scored.score.is_nan() {
            scored.score = f64::INFINITY;
        }
        if self.count == CANDIDATES_MAX && !scored.is_before(&self.best[CANDIDATES_MAX - 1]) {
            return;
        }
        self.count = (self.count + 1).min(CANDIDATES_MAX);
        let mut place = self.count - 1;
        while place > 0 && scored.is_before(&self.best[place - 1]) {
            self.best[place] = self.best[place - 1];
            place -= 1;
        }
        self.best[place] = scored;
    }

    /// Say that a model gave a score that is no number: the ranking must not be used.
    pub fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// Whether a model gave a score that is no number.
    #[must_use]
    pub fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// Count a box that may take the ball and that the strategy itself passes over.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }

    /// State the probability with which the first candidate was chosen.
    pub fn set_propensity(&mut self, propensity: f64) {
        self.propensity = propensity;
    }

    /// Probability with which the strategy chooses the first candidate in this state.
    #[must_use]
    pub fn propensity(&self) -> f64 {
        self.propensity
    }

    /// The best boxes, best first.
    #[must_use]
    pub fn candidates(&self) -> &[Scored] {
        &self.best[..self.count]
    }

    /// Number of refused boxes by reason; reasons that did not occur are left out.
    #[must_use]
    pub fn refused(&self) -> BTreeMap<Refusal, u32> {
        Refusal::ALL
            .into_iter()
            .filter(|refusal| self.refused[*refusal as usize] > 0)
            .map(|refusal| (refusal, self.refused[refusal as usize]))
            .collect()
    }
}
