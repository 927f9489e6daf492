//! The live pull against a real HTTP server that speaks `query_range`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// How the server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Good,
    FailsOnce,
    StatusError,
    BadQuery,
    Empty,
    NoReply,
    BreaksOff,
}

struct Server {
    address: String,
    requests: Arc<Mutex<Vec<(u64, u64, u64)>>>,
}

/// A server on a free port; it ends with the process.
fn server(behaviour: Behaviour) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), behaviour, &seen);
        }
    });
    Server { address, requests }
}

fn answer(mut stream: TcpStream, behaviour: Behaviour, seen: &Mutex<Vec<(u64, u64, u64)>>) {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    reader.read_line(&mut line).unwrap();
    let mut header = String::new();
    while reader.read_line(&mut header).unwrap() > 2 {
        header.clear();
    }
    assert!(line.starts_with("GET /api/v1/query_range?query=sum%28up%29%20by%20%28instance%29&"), "{line}");
    let number = |name: &str| -> u64 {
        let at = line.find(&format!("&{name}=")).unwrap() + name.len() + 2;
        line[at..].split(['&', ' ']).next().unwrap().parse().unwrap()
    };
    let asked = (number("start"), number("end"), number("step"));
    let count = {
        let mut seen = seen.lock().unwrap();
        seen.push(asked);
        seen.len()
    };
    let (status, body) = match behaviour {
        Behaviour::FailsOnce if count == 1 => ("503 Service Unavailable", "starting".to_owned()),
        Behaviour::BadQuery => (
            "400 Bad Request",
            json!({"status":"error","errorType":"bad_data","error":"parse error: unexpected end"})
                .to_string(),
        ),
        Behaviour::StatusError => {
            ("200 OK", json!({"status":"error","errorType":"timeout","error":"query timed out"}).to_string())
        }
        Behaviour::NoReply => ("200 OK", "<html>a login page</html>".to_owned()),
        Behaviour::Empty => ("200 OK", matrix(&[])),
        _ => ("200 OK", matrix(&series(asked))),
    };
    let length = if behaviour == Behaviour::BreaksOff { body.len() * 2 } else { body.len() };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream.flush().unwrap();
    stream.shutdown(std::net::Shutdown::Write).ok();
    stream.read_to_end(&mut Vec::new()).ok();
}

fn matrix(result: &[Value]) -> String {
    json!({"status":"success","data":{"resultType":"matrix","result":result}}).to_string()
}

/// Two boxes; the second has a NaN, an infinity and a hole where its samples were stale.
fn series((start, end, step): (u64, u64, u64)) -> Vec<Value> {
    assert!((end - start) / step < 11_000, "exceeded maximum resolution of 11,000 points");
    let stamps = || (start..=end).step_by(step as usize);
    let good: Vec<Value> = stamps().map(|at| json!([at, (at % 97).to_string()])).collect();
    let dirty: Vec<Value> = stamps()
        .filter(|at| at / step % 50 != 7)
        .map(|at| match at / step % 1_000 {
            10 => json!([at, "NaN"]),
            20 => json!([at, "+Inf"]),
            _ => json!([at, "1.5"]),
        })
        .collect();
    vec![
        json!({"metric":{"instance":"a:9100"},"values":good}),
        json!({"metric":{"instance":"b:9100"},"values":dirty}),
    ]
}

fn ingest(folder: &Path, address: &str, more: &[&str]) -> (i32, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_berth-trainer"))
        .args(["ingest", "--query", "sum(up) by (instance)", "--map", "value=cpu_cores", "--out", "tables"])
        .args(["--until", "1772409600", "--json", "--prometheus", address])
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), value, text)
}

#[test]
fn a_long_range_comes_in_pieces_and_every_sample_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Behaviour::Good);
    let (code, value, text) = ingest(folder.path(), &server.address, &["--range", "7d", "--step", "15s"]);
    assert_eq!(code, 0, "{text}");
    let requests = server.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 5, "40,321 stamps");
    assert!(requests.windows(2).all(|pair| pair[0].1 + 15 == pair[1].0));
    let stamps: u64 = 7 * 86_400 / 15 + 1;
    let first = (1_772_409_600 - 7 * 86_400) / 15;
    let is_of_b = |at: &u64| at % 50 != 7;
    let of_b = (first..first + stamps).filter(is_of_b).count() as u64;
    let bad = (first..first + stamps).filter(is_of_b).filter(|at| [10, 20].contains(&(at % 1_000))).count();
    assert!(bad > 70);
    assert_eq!(value["manifest"]["rows"]["box_metrics"], stamps + of_b - bad as u64);
    let files = value["quality"]["files"].as_array().unwrap();
    let rejected: u64 = files.iter().map(|file| file["rejected"]["non_finite"].as_u64().unwrap_or(0)).sum();
    assert_eq!(rejected, bad as u64);
    // What was pulled is kept, and reads again to the same tables.
    assert_eq!(std::fs::read_dir(folder.path().join("tables-pulled")).unwrap().count(), 5);
}

#[test]
fn a_server_that_is_starting_is_asked_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Behaviour::FailsOnce);
    let (code, _, text) = ingest(folder.path(), &server.address, &["--range", "1h"]);
    assert_eq!((code, server.requests.lock().unwrap().len()), (0, 2), "{text}");
    assert!(text.contains("503") && text.contains("once more"), "{text}");
}

#[test]
fn refusals_say_what_the_server_said() {
    for (behaviour, code, requests, words) in [
        (Behaviour::BadQuery, 1, 1, ["400", "parse error: unexpected end"]),
        (Behaviour::StatusError, 1, 1, ["status is `error`", "query timed out"]),
        (Behaviour::Empty, 1, 1, ["no series", "sum(up)"]),
        (Behaviour::NoReply, 1, 1, ["JSON", "reply of"]),
        (Behaviour::BreaksOff, 1, 2, ["broke off", "once more"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = server(behaviour);
        let (found, _, text) = ingest(folder.path(), &server.address, &["--range", "1h"]);
        assert_eq!((found, server.requests.lock().unwrap().len()), (code, requests), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!folder.path().join("tables").exists());
    }
}

#[test]
fn nobody_there_and_addresses_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, _, text) = ingest(folder.path(), &format!("http://{free}"), &[]);
    assert!(code == 1 && text.contains("refused"), "{code} {text}");
    let (code, _, text) = ingest(folder.path(), "https://example.org", &[]);
    assert!(code == 2 && text.contains("proxy"), "{code} {text}");
    let (code, _, text) = ingest(folder.path(), "http://127.0.0.1:1", &["--step", "0s"]);
    assert!(code == 2 && text.contains("--step"), "{code} {text}");
}
