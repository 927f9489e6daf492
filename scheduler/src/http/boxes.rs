//! Boxes over HTTP: register, drain, report, look.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use berth_models::decision::Refusal;
use berth_models::domain::{BoxReport, BoxSpec, Dimension, FieldIssue, Invalid, Stage, Usage};
use berth_models::engine::{EngineError, Reported};
use berth_models::fleet::{BoxState, Fleet};
use berth_models::forecast::SeriesForecast;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::App;
use super::allocate::durable;
use super::extract::{JsonBody, JsonList, PathOf, QueryOf, json, limit_of, of_object};
use super::fields::Fields;
use super::problem::{Problem, kinds};
use crate::clock::wall_now_ms;
use crate::sequencer::{Denied, Registered};
use crate::warmup::HookAddress;

/// Most boxes one list answers.
pub const LIST_MAX: usize = 10_000;
/// Most reports of one batch.
pub const REPORTS_MAX: usize = 10_000;

/// Register a box or change its specification; the same specification again changes nothing. `box_id` may be left
/// out of the body, and must equal the path's when it is there.
#[utoipa::path(put, path = "/v1/boxes/{box_id}", tag = "boxes", params(("box_id" = String, Path)),
    request_body = BoxSpec, responses(
    (status = 201, description = "Registered", body = BoxView),
    (status = 200, description = "Updated or unchanged", body = BoxView),
    (status = 400, description = "A value is not allowed", body = Problem),
    (status = 429, description = "boxes_max is reached", body = Problem)))]
pub async fn register(
    State(app): State<Arc<App>>,
    PathOf(box_id): PathOf<String>,
    JsonBody(Fields(mut body)): JsonBody<Fields>,
) -> Result<Response, Problem> {
    let given = body.entry("box_id").or_insert_with(|| Value::String(box_id.clone()));
    if given.as_str() != Some(&box_id) {
        return Err(Invalid::new("box_id", given.clone(), format!("{box_id:?}, as in the path")).into());
    }
    let spec: BoxSpec =
        serde_json::from_value(Value::Object(body)).map_err(|error| Problem::malformed(&error))?;
    let hook = match &spec.warmup_url {
        None => None,
        Some(url) => Some(HookAddress::parse(url).ok_or_else(|| {
            Invalid::new(
                "warmup_url",
                url,
                "http://host[:port][/path]; for https put a local proxy before it",
            )
        })?),
    };
    let (id, is_warming) = (spec.box_id.clone(), spec.stage == Stage::Warming);
    let (registered, ticket) = app.sequencer.register(spec)?;
    durable(ticket).await?;
    if let Some(hook) = hook.filter(|_| is_warming && registered == Registered::Created) {
        app.warmup.call(id, hook);
    }
    let status = if registered == Registered::Created { StatusCode::CREATED } else { StatusCode::OK };
    view(&app, &box_id, status)
}

/// Drain a box: it keeps what it has and takes nothing new.
#[utoipa::path(post, path = "/v1/boxes/{box_id}/drain", tag = "boxes", params(("box_id" = String, Path)), responses(
    (status = 200, description = "Draining", body = BoxView), (status = 404, description = "No such box", body = Problem)))]
pub async fn drain(State(app): State<Arc<App>>, PathOf(box_id): PathOf<String>) -> Result<Response, Problem> {
    let ticket = app.sequencer.drain(&box_id)?;
    durable(ticket).await?;
    view(&app, &box_id, StatusCode::OK)
}

/// A box's report of itself. Give `sampled_at_ms` or `age_ms`; a report without either counts as sampled now.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Report {
    /// When the window ended, in UTC epoch milliseconds by the box's clock. A retry with the same stamp is
    /// recognised; a stamp in the future counts as now.
    pub sampled_at_ms: Option<u64>,
    /// How long ago the window ended, in milliseconds, for boxes without a clock to trust.
    pub age_ms: Option<u64>,
    /// Length of the window the use was averaged over, in milliseconds.
    pub window_ms: u64,
    /// Mean use over the window, everything the box did included; absent: not measured.
    pub usage: Usage,
    /// Highest lease id accepted at the sample: everything up to it is in `usage`.
    pub last_accepted_lease_id: Option<u64>,
    /// The lease ids live at the sample; more exact than the line above.
    pub live_lease_ids: Option<Vec<u64>>,
    /// The stage the box is in by its own word.
    pub stage: Option<Stage>,
    /// Share of the window's work that failed, 0 to 1.
    pub error_rate: Option<f64>,
    /// Work waiting on the box.
    pub queue_length: Option<f64>,
    /// 99th percentile of the window's latencies, in milliseconds.
    pub latency_ms_p99: Option<f64>,
    /// Mean duration of its tasks, in milliseconds: what its performance is measured by.
    pub avg_task_duration_ms: Option<f64>,
    /// Share of the last seven days' work that failed, 0 to 1: what its stability is measured by.
    pub failure_rate_7d: Option<f64>,
    /// When it accepts the next ball, in UTC epoch milliseconds; `next_accept` keeps to it.
    pub next_accept_at_ms: Option<u64>,
}

impl Report {
    /// The report as the domain has it, its stamp in engine time.
    fn of(self, app: &App, box_id: &str) -> Result<BoxReport, Problem> {
        let wall_ms = match (self.sampled_at_ms, self.age_ms) {
            (Some(_), Some(age_ms)) => {
                return Err(Invalid::new("age_ms", age_ms, "either sampled_at_ms or age_ms, not both").into());
            }
            (Some(sampled_at_ms), None) => sampled_at_ms,
            (None, age_ms) => wall_now_ms().saturating_sub(age_ms.unwrap_or(0)),
        };
        Ok(BoxReport {
            box_id: box_id.into(),
            sampled_at_ms: app.sequencer.clock().to_engine(wall_ms),
            window_ms: self.window_ms,
            usage: self.usage,
            last_accepted_lease_id: self.last_accepted_lease_id,
            live_lease_ids: self.live_lease_ids,
            stage: self.stage,
            error_rate: self.error_rate,
            queue_length: self.queue_length,
            latency_ms_p99: self.latency_ms_p99,
            avg_task_duration_ms: self.avg_task_duration_ms,
            failure_rate_7d: self.failure_rate_7d,
            next_accept_at_ms: self.next_accept_at_ms.map(|at_ms| app.sequencer.clock().to_engine(at_ms)),
        })
    }
}

/// What became of a report.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReportAnswer {
    /// Whether it was taken.
    pub accepted: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Fields that were set aside as nonsense; they count as not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<FieldIssue>,
}

/// Take a box's report. Reports may come twice and out of order: only one later than the last counts.
#[utoipa::path(post, path = "/v1/boxes/{box_id}/report", tag = "boxes", params(("box_id" = String, Path)),
    request_body = Report, responses(
    (status = 200, description = "Taken, or not newer than the last one", body = ReportAnswer),
    (status = 404, description = "No such box", body = Problem)))]
pub async fn report(
    State(app): State<Arc<App>>,
    PathOf(box_id): PathOf<String>,
    JsonBody(body): JsonBody<Report>,
) -> Result<Response, Problem> {
    let report = body.of(&app, &box_id)?;
    let (reported, ticket) = app.sequencer.report(report)?;
    durable(ticket).await?;
    let answer = ReportAnswer {
        accepted: reported.is_news,
        reason: (!reported.is_news).then_some("not_newer"),
        set_aside: reported.issues,
    };
    Ok(json(StatusCode::OK, &answer))
}

/// What became of a batch of reports.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ReportBatchAnswer {
    /// Reports taken.
    pub accepted: usize,
    /// Reports not newer than the last one.
    pub not_newer: usize,
    /// Fields set aside as nonsense, over all reports.
    pub fields_set_aside: usize,
    /// Reports that could not be read, each for itself; the others count.
    pub rejected: Vec<RejectedReport>,
}

/// A report of a batch that could not be read.
#[derive(Debug, Serialize, ToSchema)]
pub struct RejectedReport {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// Why, and what to do.
    pub detail: String,
}

impl ReportBatchAnswer {
    fn count(&mut self, reported: &Reported) {
        self.accepted += usize::from(reported.is_news);
        self.not_newer += usize::from(!reported.is_news);
        self.fields_set_aside += reported.issues.len();
    }
}

/// Take many reports of a box, oldest first: what it could not send for a while, or its history. Each is read for
/// itself, so one that is malformed harms no other.
#[utoipa::path(post, path = "/v1/boxes/{box_id}/report/batch", tag = "boxes", params(("box_id" = String, Path)),
    request_body = Vec<Report>, responses(
    (status = 200, description = "Counts", body = ReportBatchAnswer),
    (status = 404, description = "No such box", body = Problem),
    (status = 413, description = "Too many reports", body = Problem)))]
pub async fn report_batch(
    State(app): State<Arc<App>>,
    PathOf(box_id): PathOf<String>,
    JsonList(reports): JsonList,
) -> Result<Response, Problem> {
    if reports.len() > REPORTS_MAX {
        let detail = format!(
            "{} reports in one batch; at most {REPORTS_MAX} are allowed: send several",
            reports.len()
        );
        return Err(Problem::new(kinds::TOO_LARGE, detail));
    }
    let mut answer = ReportBatchAnswer::default();
    let (mut last, mut denied) = (None, None);
    for (index, value) in reports.into_iter().enumerate() {
        let report = match of_object::<Report>(value).and_then(|report| report.of(&app, &box_id)) {
            Ok(report) => report,
            Err(problem) => {
                answer.rejected.push(RejectedReport { index, detail: problem.detail });
                continue;
            }
        };
        match app.sequencer.report(report) {
            Ok((reported, ticket)) => {
                answer.count(&reported);
                last = Some(ticket);
            }
            // No such box, or nothing can be recorded: that holds for the rest as well.
            Err(error) => {
                denied = Some(error);
                break;
            }
        }
    }
    // Events become durable in order, so the last one stands for all.
    if let Some(ticket) = last {
        durable(ticket).await?;
    }
    denied.map_or_else(|| Ok(json(StatusCode::OK, &answer)), |error| Err(error.into()))
}

/// A box as the fleet sees it. Loads are shares of the capacity; times are UTC epoch milliseconds by the scheduler's
/// clock.
#[derive(Debug, Serialize, ToSchema)]
pub struct BoxView {
    /// What it registered.
    pub spec: Arc<BoxSpec>,
    /// The stage by its own word.
    pub stage: Stage,
    /// Effective weight; 0 gets nothing.
    pub weight: f64,
    /// Why it takes nothing at present; absent: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Refusal>,
    /// Load now, background and live balls.
    pub load: f64,
    /// Highest load since registration.
    pub load_peak: f64,
    /// Load that Berth did not place there, now, by dimension.
    pub background: BTreeMap<&'static str, f64>,
    /// Live leases.
    pub live_leases: usize,
    /// When the last report was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_at_ms: Option<u64>,
    /// The forecasts of the background by dimension, with the weight the model has in each.
    #[schema(value_type = Object)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forecasts: BTreeMap<&'static str, SeriesForecast>,
}

impl BoxView {
    fn new(app: &App, state: &BoxState) -> Self {
        let clock = app.sequencer.clock();
        let measured = Dimension::ALL.into_iter().filter(|d| state.spec.capacity.0[*d as usize].is_some());
        let forecast = |d: Dimension| {
            let mut forecast = state.series()[d as usize].as_ref()?.forecast?;
            forecast.at_ms = clock.to_wall(forecast.at_ms);
            Some((d.name(), forecast))
        };
        Self {
            spec: state.spec.clone(),
            stage: state.stage(),
            weight: state.weight(),
            gate: state.gate(),
            load: state.load(),
            load_peak: state.peak_load(),
            background: measured.map(|d| (d.name(), state.background_ratio()[d as usize])).collect(),
            live_leases: state.live_count(),
            reported_at_ms: state.last_report().map(|report| clock.to_wall(report.sampled_at_ms)),
            forecasts: Dimension::ALL.into_iter().filter_map(forecast).collect(),
        }
    }
}

fn view(app: &App, box_id: &str, status: StatusCode) -> Result<Response, Problem> {
    let view = app.sequencer.look(|fleet| fleet.get_box(box_id).map(|state| BoxView::new(app, state)));
    let view = view.ok_or_else(|| Denied::Engine(EngineError::UnknownBox(box_id.to_owned())))?;
    Ok(json(status, &view))
}

/// One box.
#[utoipa::path(get, path = "/v1/boxes/{box_id}", tag = "boxes", params(("box_id" = String, Path)), responses(
    (status = 200, description = "The box", body = BoxView), (status = 404, description = "No such box", body = Problem)))]
pub async fn get(State(app): State<Arc<App>>, PathOf(box_id): PathOf<String>) -> Result<Response, Problem> {
    view(&app, &box_id, StatusCode::OK)
}

/// Which boxes to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only boxes after this id, for the next page.
    pub after: Option<String>,
    /// Most boxes, up to 10,000; 1,000 when absent.
    pub limit: Option<usize>,
}

/// The boxes, sorted by id.
#[utoipa::path(get, path = "/v1/boxes", tag = "boxes", params(ListQuery), responses(
    (status = 200, description = "The boxes", body = Vec<BoxView>)))]
pub async fn list(
    State(app): State<Arc<App>>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Response, Problem> {
    let limit = limit_of(query.limit, 1_000, LIST_MAX)?;
    let look = |fleet: &Fleet| -> Vec<BoxView> {
        let boxes = fleet.boxes();
        let start =
            query.after.as_deref().map_or(0, |after| boxes.partition_point(|b| &**b.box_id() <= after));
        boxes[start..].iter().take(limit).map(|state| BoxView::new(&app, state)).collect()
    };
    Ok(json(StatusCode::OK, &app.sequencer.look(look)))
}
