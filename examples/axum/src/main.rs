//! A server with axum that serves its own heap profile, as services do that are profiled all the time. heft samples what
//! it allocates; the handler asks heft for the profile. Without heft, or where sampling is switched off, it answers 403.
//! Each request for /open keeps a session of 20,000 bytes, as a cache that never forgets.
//!
//!     cargo build --release
//!     heft run --sample -- target/release/axum_heap 3000
//!     curl localhost:3000/open
//!     curl localhost:3000/debug/pprof/heap > heap.pb.gz
//!     go tool pprof -top heap.pb.gz

use std::sync::Mutex;

use axum::http::{header, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::Router;

static SESSIONS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

async fn open_session() -> String {
    let mut sessions = SESSIONS.lock().unwrap();
    sessions.push(vec![1; 20_000]);
    format!("{} sessions\n", sessions.len())
}

async fn heap_profile() -> Result<impl IntoResponse, (StatusCode, String)> {
    if !heft::sampling_active() {
        let how = "heap profiling is not active: start this server with heft run --sample, or switch it on with heft ctl PID \
                   sample=on\n";
        return Err((StatusCode::FORBIDDEN, how.into()));
    }
    let profile = tokio::task::spawn_blocking(|| {
        let mut profile = Vec::new();
        heft::pprof_dump(&mut profile).map(|()| profile) // it waits for heft
    });
    match profile.await.unwrap() {
        Ok(profile) => Ok(([(header::CONTENT_TYPE, "application/octet-stream")], profile)),
        Err(why) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("the profile cannot be made: {why}\n"))),
    }
}

fn main() {
    let port = std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port"));
    let routes = Router::new().route("/open", get(open_session)).route("/debug/pprof/heap", get(heap_profile));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        println!("http://{}/", listener.local_addr().unwrap());
        axum::serve(listener, routes).await.unwrap();
    });
}
