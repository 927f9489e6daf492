//! The whole server over HTTP, next to a bare axum handler with the same JSON, in the same run.
//!
//! `cargo bench -p berth-scheduler --bench http [-- --json] [--rounds N]`.
//!
//! Bare handler, `--store memory` and `--store sqlite` at both durabilities are processes of their own
//! and take turns, round by round. Every ball is placed once and completed once, 2,000 at a time, the
//! two timed apart. 100 boxes, `least_loaded`; finished balls are forgotten after a tenth of a second
//! (`idempotency_keep_ms` 100, so that a run does not measure the memory of ten minutes of retries).
//! With `taskset` every server runs on core 0 and the load on core 1, so a closed loop says what one
//! core serves; CPU is the server process's own, from /proc. Open loop: Poisson arrivals at half of the
//! memory store's capacity for bare and memory, at half of its own for sqlite; times count from the
//! moment a request was due, and how late the load itself was is shown beside.

mod bare;
mod load;
mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_models::chance::{draw_of, unit};
use load::{Open, closed, quantile};
use process::Process;

/// Connections of the closed loops, and requests of one round of each.
const CLOSED: [(usize, usize); 2] = [(1, 4_000), (32, 24_000)];
/// Requests of one round of a closed loop that syncs to disk.
const CLOSED_DISK: [usize; 2] = [400, 8_000];
/// Balls that are live at a time in the closed loops: 20 a box.
const LIVE: usize = 2_000;
/// Seconds of one round of the open loop.
const OPEN_S: f64 = 2.0;
const BOXES: usize = 100;
const MEMORY_BOXES: usize = 1_000;
const REPORTS: usize = 60;
const REPORT_EVERY_MS: usize = 5_000;
/// The bars.
const BAR_SHARE: f64 = 0.8;
const BAR_P99_MS: f64 = 0.3;
const BAR_MIB: f64 = 100.0;

/// What a part of a round took.
#[derive(Default)]
struct Spent {
    wall_s: f64,
    cpu_s: f64,
}

fn completions(ball_ids: &[String], leases: &[u64]) -> Vec<load::Request> {
    ball_ids.iter().zip(leases).map(|(ball_id, lease)| load::complete(ball_id, *lease)).collect()
}

/// One kind of server.
struct Contender {
    name: &'static str,
    process: Process,
    is_disk: bool,
    /// Figures by name, one a round.
    figures: BTreeMap<String, Vec<f64>>,
    next: usize,
}

impl Contender {
    fn new(name: &'static str, is_disk: bool, process: Process) -> Self {
        Self { name, process, is_disk, figures: BTreeMap::new(), next: 0 }
    }

    fn note(&mut self, name: String, value: f64) {
        self.figures.entry(name).or_default().push(value);
    }

    fn median(&self, name: &str) -> f64 {
        quantile(&mut self.figures.get(name).cloned().unwrap_or_default(), 0.5)
    }

    fn ball_ids(&mut self, count: usize) -> Vec<String> {
        let first = self.next;
        self.next += count;
        (first..self.next).map(|number| format!("{}-{number:07}", self.name)).collect()
    }

    /// Place and complete `count` balls over `connections`, [`LIVE`] at a time.
    fn closed_round(&mut self, connections: usize, count: usize) {
        let ball_ids = self.ball_ids(count);
        let (mut placing, mut completing) = (Spent::default(), Spent::default());
        for ball_ids in ball_ids.chunks(LIVE) {
            let requests: Vec<_> = ball_ids.iter().map(|ball_id| load::allocate(ball_id)).collect();
            let leases = self.send(connections, &requests, &mut placing);
            let requests = completions(ball_ids, &leases);
            self.send(connections, &requests, &mut completing);
        }
        for (what, spent) in [("allocate", placing), ("complete", completing)] {
            self.note(format!("{what}_per_s_c{connections}"), count as f64 / spent.wall_s);
            self.note(format!("{what}_cpu_us_c{connections}"), spent.cpu_s * 1e6 / count as f64);
        }
    }

    fn send(&self, connections: usize, requests: &[load::Request], spent: &mut Spent) -> Vec<u64> {
        let before = self.process.cpu_s();
        let (wall_s, leases) = closed(self.process.address, connections, requests);
        spent.wall_s += wall_s;
        spent.cpu_s += self.process.cpu_s() - before;
        leases
    }

    fn open_round(&mut self, rate: f64, round: u64) {
        let count = (rate * OPEN_S) as usize;
        let ball_ids = self.ball_ids(count);
        let requests: Vec<_> = ball_ids.iter().map(|ball_id| load::allocate(ball_id)).collect();
        let mut at_s = 0.0;
        let at: Vec<_> = (0..count as u64)
            .map(|index| {
                at_s -= (1.0 - unit(draw_of(round, index), 0)).ln() / rate;
                Duration::from_secs_f64(at_s)
            })
            .collect();
        let before = self.process.cpu_s();
        let (Open { p50_ms, p99_ms, late_ms_p99 }, leases) = load::open(self.process.address, &requests, &at);
        let cpu_s = self.process.cpu_s() - before;
        self.note("open_cpu_us".to_owned(), cpu_s * 1e6 / count as f64);
        self.note("open_p50_ms".to_owned(), p50_ms);
        self.note("open_p99_ms".to_owned(), p99_ms);
        self.note("open_late_ms_p99".to_owned(), late_ms_p99);
        self.send(CLOSED[1].0, &completions(&ball_ids, &leases), &mut Spent::default());
    }
}

fn scheduler(folder: &std::path::Path, store: &str, durability: &str) -> Process {
    let config = folder.join("config.json");
    let fields = serde_json::json!({
        "idempotency_keep_ms": 100, "lease_ms_default": 3_600_000,
        "report_stale_ms": 86_400_000, "report_expired_ms": 86_400_000,
    });
    std::fs::write(&config, fields.to_string()).expect("written");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_berth-scheduler"));
    let mut command = process::on_core(0, binary);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--primary", "least_loaded", "--seed", "7"])
        .args(["--store", store, "--durability", durability, "--config"])
        .arg(config);
    Process::start(&mut command)
}

fn add_boxes(process: &Process, count: usize, reports: usize) {
    for number in 0..count {
        let body = serde_json::json!({
            "capacity": { "cpu_cores": 32, "memory_bytes": 64_u64 << 30, "slots": 10_000 },
            "stage": "mature", "endpoint": format!("http://box-{number:05}.example:8080/put"),
        });
        let path = format!("/v1/boxes/box-{number:05}");
        process.send("PUT", &path, &body.to_string());
        let reports: Vec<_> = (0..reports)
            .map(|index| {
                let load = unit(draw_of(3, (number * reports + index) as u64), 0);
                let usage =
                    serde_json::json!({ "cpu_cores": 1.0 + 15.0 * load, "memory_bytes": 4e9 + 3e10 * load });
                serde_json::json!({ "age_ms": (reports - index) * REPORT_EVERY_MS, "usage": usage })
            })
            .collect();
        process.send("POST", &format!("{path}/report/batch"), &serde_json::json!(reports).to_string());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--bare") {
        return bare::serve();
    }
    let against = arguments.iter().skip_while(|argument| *argument != "--against").nth(1);
    if let Some(address) = against {
        return against_running(address.parse().expect("--against HOST:PORT"));
    }
    if let Some(code) = process::pinned(&arguments) {
        std::process::exit(code);
    }
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds: u64 = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(5);

    let folder = tempfile::tempdir().expect("a folder");
    let resident_mib = resident(folder.path());
    let mut contenders = start(folder.path());
    for round in 0..rounds {
        for contender in &mut contenders {
            for (index, (connections, count)) in CLOSED.into_iter().enumerate() {
                let count = if contender.is_disk { CLOSED_DISK[index] } else { count };
                contender.closed_round(connections, count);
            }
        }
        let rate = contenders[1].median("allocate_per_s_c32") / 2.0;
        for contender in &mut contenders {
            let own = contender.median("allocate_per_s_c32") / 2.0;
            contender.open_round(rate.min(own), round);
        }
    }
    report(&contenders, resident_mib, is_json);
}

/// `--against HOST:PORT`: place and complete on a server that runs already, for a profiler to look at.
fn against_running(address: std::net::SocketAddr) {
    let marker = std::process::id();
    for round in 0..20 {
        let ball_ids: Vec<String> =
            (0..CLOSED[1].1).map(|number| format!("{marker}-{round}-{number:06}")).collect();
        let requests: Vec<_> = ball_ids.iter().map(|ball_id| load::allocate(ball_id)).collect();
        let (placed_s, leases) = closed(address, CLOSED[1].0, &requests);
        let requests: Vec<_> =
            ball_ids.iter().zip(leases).map(|(ball_id, lease)| load::complete(ball_id, lease)).collect();
        let (completed_s, _) = closed(address, CLOSED[1].0, &requests);
        let per_s = |seconds: f64| ball_ids.len() as f64 / seconds;
        println!("{:.0} placed/s, {:.0} completed/s", per_s(placed_s), per_s(completed_s));
    }
}

fn start(folder: &std::path::Path) -> Vec<Contender> {
    let this = std::env::current_exe().expect("this program");
    let bare = Process::start(process::on_core(0, &this).arg("--bare"));
    let sqlite = |name: &str| format!("sqlite:{}", folder.join(name).display());
    let contenders = vec![
        Contender::new("bare", false, bare),
        Contender::new("memory", false, scheduler(folder, "memory", "disk")),
        Contender::new("sqlite-process", false, scheduler(folder, &sqlite("process.db"), "process")),
        Contender::new("sqlite-disk", true, scheduler(folder, &sqlite("disk.db"), "disk")),
    ];
    for contender in &contenders[1..] {
        add_boxes(&contender.process, BOXES, 1);
    }
    contenders
}

/// Resident memory with 1,000 boxes that have reported two dimensions for five minutes.
fn resident(folder: &std::path::Path) -> [f64; 2] {
    let process = scheduler(folder, "memory", "disk");
    let empty = process.resident_mib();
    add_boxes(&process, MEMORY_BOXES, REPORTS);
    [empty, process.resident_mib()]
}

fn report(contenders: &[Contender], [empty_mib, boxes_mib]: [f64; 2], is_json: bool) {
    let (bare, memory) = (&contenders[0], &contenders[1]);
    let shares = [1, 32].map(|c| {
        let name = format!("allocate_per_s_c{c}");
        // Paired by round: what disturbs a round disturbs both.
        let mut ratios: Vec<f64> = memory.figures[&name]
            .iter()
            .zip(&bare.figures[&name])
            .map(|(memory, bare)| memory / bare)
            .collect();
        quantile(&mut ratios, 0.5)
    });
    let added_ms = memory.median("open_p99_ms") - bare.median("open_p99_ms");
    let bars = [
        ("memory ÷ bare, c=1", shares[0], BAR_SHARE, shares[0] >= BAR_SHARE),
        ("memory ÷ bare, c=32", shares[1], BAR_SHARE, shares[1] >= BAR_SHARE),
        ("open-loop p99, memory − bare, ms", added_ms, BAR_P99_MS, added_ms <= BAR_P99_MS),
        ("resident MiB, 1,000 boxes", boxes_mib, BAR_MIB, boxes_mib <= BAR_MIB),
    ];
    if is_json {
        let medians: BTreeMap<&str, BTreeMap<&str, f64>> = contenders
            .iter()
            .map(|contender| {
                let names = contender.figures.keys();
                (contender.name, names.map(|name| (name.as_str(), contender.median(name))).collect())
            })
            .collect();
        let bars: Vec<_> = bars
            .iter()
            .map(|(name, value, bar, met)| serde_json::json!({ "name": name, "value": value, "bar": bar, "met": met }))
            .collect();
        let all = serde_json::json!({ "medians": medians, "resident_mib_empty": empty_mib, "bars": bars });
        println!("{all}");
        return;
    }
    print!("{:<24}", "medians of rounds");
    contenders.iter().for_each(|contender| print!("{:>16}", contender.name));
    println!();
    for name in bare.figures.keys() {
        print!("{name:<24}");
        contenders.iter().for_each(|contender| print!("{:>16.3}", contender.median(name)));
        println!();
    }
    println!(
        "\nresident MiB: {empty_mib:.1} empty, {boxes_mib:.1} with {MEMORY_BOXES} boxes and {REPORTS} reports each"
    );
    for (name, value, bar, met) in bars {
        println!("{name}: {value:.3} (bar {bar}): {}", if met { "met" } else { "NOT met" });
    }
}
