//! Who competes: a strategy, what it is told, and what stands behind its forecasts.

use berth_models::config::FleetConfig;
use berth_models::domain::Amounts;
use berth_models::simulation::Scenario;
use berth_models::strategy::StrategyName;

/// What a contender is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rule: the ratios are against the best of those with the same information.
    Rule,
    /// What is to be shown.
    Candidate,
    /// The candidate with less or more than it has in life.
    Ablation,
    /// A baseline as the seed texts describe it.
    Seed,
    /// What nobody can have: the bound.
    Bound,
}

/// What stands behind the forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// No forecasts.
    None,
    /// The suite's trained model.
    Model,
    /// What is now will be.
    Persistence,
    /// What will be.
    Perfect,
}

/// Last changes to a scenario.
pub type Shape = fn(&mut Scenario);

/// One who competes.
#[derive(Clone)]
pub struct Contender {
    /// Shown as `strategy_id`.
    pub id: String,
    /// What it looks at.
    pub sees: String,
    /// Contenders of one group have the same information but for forecasts.
    pub group: &'static str,
    /// What it is there for.
    pub kind: Kind,
    /// Its strategy.
    pub strategy: StrategyName,
    /// Its forecasts.
    pub outlook: Outlook,
    /// Whether senders tell it what a ball needs; otherwise nothing it places counts before a
    /// report shows it.
    pub knows_demands: bool,
    /// Whether senders tell it how much work a ball is.
    pub knows_sizes: bool,
    /// Last changes to the scenario.
    pub shape: Shape,
}

impl Contender {
    /// A strategy as it is.
    #[must_use]
    pub fn new(strategy: StrategyName, kind: Kind) -> Self {
        Self {
            id: strategy.versioned().to_owned(),
            sees: strategy.sees().to_owned(),
            group: "all",
            kind,
            strategy,
            outlook: Outlook::None,
            knows_demands: true,
            knows_sizes: true,
            shape: |_| {},
        }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, suffix: &str) -> Self {
        self.id = format!("{}, {suffix}", self.id);
        self
    }

    /// With forecasts.
    #[must_use]
    pub fn with_outlook(mut self, outlook: Outlook) -> Self {
        let name = match outlook {
            Outlook::None => return self,
            Outlook::Model => "trained forecast",
            Outlook::Persistence => "persistence",
            Outlook::Perfect => "perfect forecast",
        };
        self.outlook = outlook;
        self.named(name)
    }

    /// Without knowledge of what it places: only reports change its picture.
    #[must_use]
    pub fn without_virtual_load(mut self) -> Self {
        self.knows_demands = false;
        self.sees = "reports only".to_owned();
        self.named("reports only")
    }

    /// Without knowledge of work sizes.
    #[must_use]
    pub fn without_sizes(mut self) -> Self {
        self.knows_sizes = false;
        self.group = "sizes unknown";
        self.sees = format!("{}, sizes unknown", self.sees);
        self.named("sizes unknown")
    }

    /// With last changes to the scenario.
    #[must_use]
    pub fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The trace as this contender meets it.
    #[must_use]
    pub fn meets(&self, trace: &Scenario) -> Scenario {
        let mut scenario = trace.clone();
        scenario.config = FleetConfig { primary: self.strategy, ..scenario.config };
        if !self.knows_demands || !self.knows_sizes {
            for arrival in &mut scenario.arrivals {
                let ball = std::sync::Arc::make_mut(&mut arrival.ball);
                if !self.knows_demands {
                    ball.demand = Amounts::ZERO;
                }
                if !self.knows_sizes {
                    ball.work_ms = None;
                    ball.expected_residence_ms = None;
                }
            }
        }
        (self.shape)(&mut scenario);
        scenario
    }
}

/// Every rule there is, as a contender.
#[must_use]
pub fn rules() -> Vec<Contender> {
    let names = StrategyName::ALL.into_iter().filter(|name| {
        // The last is there for published figures.
        !matches!(name, StrategyName::CriticalRule | StrategyName::LeastWorkLeftSlowTie)
            && !name.needs_model()
            && !name.needs_policy()
    });
    names.map(|name| Contender::new(name, Kind::Rule)).collect()
}
