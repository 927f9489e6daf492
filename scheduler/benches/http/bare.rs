//! The bare handler to compare with: axum reads the same JSON and writes the same JSON, and decides
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Path;
use axum::routing::post;
use axum::{Json, Router};
use berth_models::domain::Ball;
use berth_scheduler::http::allocate::Allocation;
use berth_scheduler::http::leases::{Completion, LeaseAnswer};
use tokio::net::TcpListener;

/// As long as a real link.
const LINK: &str = "http://box-00042.example:8080/put?tenant=bench&ball_id=00000000-000000&lease_id=000000\
    &expires_at_ms=1790000000000&key_id=00000000&signature=\
    0000000000000000000000000000000000000000000000000000000000000000";

static NEXT: AtomicU64 = AtomicU64::new(1);

async fn allocate(Json(ball): Json<Ball>) -> Result<axum::response::Response, String> {
    use axum::response::IntoResponse;
    ball.check().map_err(|invalid| invalid.to_string())?;
    let answer = Allocation {
        tenant: &ball.tenant,
        ball_id: &ball.ball_id,
        box_id: "box-00042",
        endpoint: Some("http://box-00042.example:8080/put"),
        link: Some(LINK.to_owned()),
        lease_id: NEXT.fetch_add(1, Ordering::Relaxed),
        lease_expires_at_ms: 1_790_000_000_000,
        strategy_id: "least_loaded.v1",
        route: "primary",
        propensity: 1.0,
        score: Some(0.123_456_789),
        panic: false,
        repeated: None,
    };
    Ok(Json(&answer).into_response())
}

async fn complete(Path(lease_id): Path<u64>, Json(body): Json<Completion>) -> Json<LeaseAnswer> {
    let state = if body.succeeded { "completed" } else { "failed" };
    let ended_at_ms = Some(1_790_000_000_000);
    Json(LeaseAnswer { lease_id, state, lease_expires_at_ms: None, ended_at_ms, repeated: false })
}

/// Serve on a free port, print it, and never return.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("listening on http://{}", listener.local_addr().expect("bound"));
        let router = Router::new()
            .route("/v1/allocate", post(allocate))
            .route("/v1/leases/{lease_id}/complete", post(complete));
        axum::serve(listener, router).await.expect("serves");
    });
}
