//! `berth-trainer policy train`.

use std::path::PathBuf;

use anyhow::Context;
use berth_models::policy::bundle::{PolicyBundle, Training};
use berth_models::policy::{PlacementPolicy, Regime, Scorer};
use berth_models::strategy::StrategyName;

use super::{folder, output};
use crate::cli::{EXIT_BAR_NOT_MET, EXIT_DONE};
use crate::learners::policy::{NAMES, World, by_name};
use crate::policy::traffic::Family;
use crate::policy::training::{Progress, Settings, train};
use crate::policy::{normalisation, verdict};

/// Arguments of `berth-trainer policy train`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer policy train --suite park --out policy/
  berth-trainer policy train --suite park --out policy/ --resume
  berth-trainer compare --suite park --policy policy/

Exit code 3: the policy was not ahead of the best rule, and no artifact was made.")]
pub struct Args {
    /// Train on this suite's distributions, never on its seeds: iclr19 or park.
    #[arg(long, value_parser = ["iclr19", "park"])]
    suite: String,
    /// Folder of the artifact, the checkpoint and report.html.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The learner.
    #[arg(long, default_value = "evolution", value_parser = NAMES)]
    learner: String,
    /// Seed of every draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most iterations.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    iterations: u32,
    /// Stop after so many iterations without a better validation ratio.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    patience: u32,
    /// Rollouts at a time; the result is the same for any number.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Go on from the checkpoint in --out.
    #[arg(long)]
    resume: bool,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

/// Run the command; returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    folder::prepare(&args.out)?;
    let family = Family::of_suite(&args.suite).context("the suite has no traffic to train on")?;
    let settings = Settings { family, seed: args.seed, iterations: args.iterations, patience: args.patience };
    let speeds = family.speeds();
    let normalisation = normalisation::measure(family, args.seed)?;
    let scale = normalisation.shape.scale(speeds.iter().sum::<f64>() / speeds.len() as f64);
    let world = World { speeds, scale, normalisation, threads: usize::from(args.threads) };
    let mut learner = by_name(&args.learner, args.seed, args.iterations).context("no such learner")?;
    let resumed = if args.resume { folder::checkpoint(&args.out)? } else { None };
    let bar = output::progress_bar(args.iterations, args.json);
    let progress = train(
        &settings,
        &world,
        &mut *learner,
        resumed,
        &mut |progress, loss| {
            bar.set_position(u64::from(progress.iteration));
            bar.set_message(output::message(progress, loss));
        },
        &mut |progress| folder::write(&args.out, folder::CHECKPOINT_FILE, &serde_json::to_vec(progress)?),
    )?;
    bar.finish_and_clear();
    judge(args, &settings, &world, &progress, learner.describe())
}

/// Judge the best weights on seeds of their own; make an artifact only where they are ahead.
fn judge(
    args: &Args,
    settings: &Settings,
    world: &World,
    progress: &Progress,
    learner: String,
) -> anyhow::Result<u8> {
    let Settings { family, seed, .. } = *settings;
    let scorer = world.scorer(&progress.best).context("a weight is not finite")?;
    let regimes = verdict::regimes(family, seed, world, &scorer)?;
    let is_home = |regime: &&Regime| (regime.load_from..regime.load_to).contains(&family.home_load());
    let home = *regimes.iter().find(is_home).context("no regime holds the suite's own load")?;
    let bundle = if home.is_ahead() {
        Some(bundle(settings, world, progress, (learner.clone(), scorer), &regimes)?)
    } else {
        None
    };
    let told = output::Verdict {
        suite: family.suite(),
        learner,
        seed,
        policy_id: bundle.as_ref().map(|bundle| bundle.manifest().policy_id.clone()),
        is_promotable: bundle.is_some(),
        baseline: home.rule.name().to_owned(),
        iterations: progress.iteration,
        best_iteration: progress.best_iteration,
        steps: progress.steps,
        wall_s: progress.wall_s,
        steps_per_s: progress.steps as f64 / progress.wall_s.max(f64::MIN_POSITIVE),
        wall_s_to_beat_rule: progress.curve.iter().find(|p| p.validation_ratio < 1.0).map(|p| p.wall_s),
        validation_ratio: progress.best_ratio,
        home,
        regimes: &regimes,
    };
    folder::write(&args.out, folder::REPORT_FILE, output::report(&told, &progress.curve).as_bytes())?;
    if args.json {
        println!("{}", serde_json::to_string(&told)?);
    } else {
        output::print(&told);
    }
    let Some(bundle) = bundle else {
        folder::remove_policy(&args.out)?;
        eprintln!(
            "no artifact: at the suite's load the ratio to {} is {:.3} [{:.3}, {:.3}]; needed is an upper end below 1",
            told.baseline, home.ratio, home.ratio_low, home.ratio_high
        );
        return Ok(EXIT_BAR_NOT_MET);
    };
    folder::save(&args.out, &bundle)?;
    let (id, difference) = (&bundle.manifest().policy_id, bundle.probe_difference());
    eprintln!("policy {id} written to {}; probes differ by at most {difference:.1e}", args.out.display());
    Ok(EXIT_DONE)
}

fn bundle(
    settings: &Settings,
    world: &World,
    progress: &Progress,
    (learner, scorer): (String, Scorer),
    regimes: &[Regime],
) -> anyhow::Result<PolicyBundle> {
    let Settings { family, seed, iterations, .. } = *settings;
    let probes = verdict::probes(family, seed, world, &scorer);
    let policy = PlacementPolicy {
        scorer,
        scale: world.scale,
        regimes: regimes.to_vec(),
        trained_on: world.normalisation.shape,
        rule: StrategyName::LeastWorkLeft,
    };
    let training = Training {
        learner,
        data: format!("{} distributions, {iterations} iterations asked for", family.suite()),
        seed,
        iterations: progress.best_iteration,
        steps: progress.steps,
        wall_s: progress.wall_s,
        metrics: [("validation_ratio".to_owned(), progress.best_ratio)].into(),
    };
    PolicyBundle::new(policy, probes, training).context("verifying the trained policy")
}
