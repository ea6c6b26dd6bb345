//! Latencies and metrics: in `status --json`, by `forebay metrics`, at the socket and at the port, and to a real Prometheus.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Sandbox, require};
use serde_json::Value;

use crate::bed::{self, Bed};

const PATIENCE: Duration = Duration::from_secs(60);

/// A program of the test's own, ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write(bed: &Bed, node: u32) {
    let file = fs::File::create(bed.mount_of(node).join(format!("file-{node}"))).unwrap();
    (&file).write_all(&[7; 300_000]).unwrap();
    file.sync_all().unwrap();
}

fn count(latencies: &Value, by: &str, kind: &str) -> u64 {
    latencies["latency"][by][kind]["count"].as_u64().unwrap_or(0)
}

#[test]
fn latencies_are_in_status_and_a_jobs_are_those_of_all_nodes() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    (0..2).for_each(|node| write(&bed, node));
    let kinds = [("burst", "write"), ("burst", "fsync"), ("burst", "create"), ("log", "append"), ("log", "sync")];
    // A request is recorded when its program has gone on already.
    wait_until("all requests are recorded", PATIENCE, || {
        let status = bed.job.status();
        kinds.iter().all(|(by, kind)| (0..2).all(|node| count(&status["nodes"][node], by, kind) > 0))
    });
    let status = bed.job.status();
    for (by, kind) in kinds {
        let parts: u64 = (0..2).map(|node| count(&status["nodes"][node], by, kind)).sum();
        assert_eq!(count(&status["totals"], by, kind), parts, "{by} {kind}");
        let latency = &status["totals"]["latency"][by][kind];
        let us = |key: &str| latency[key].as_u64().unwrap();
        assert!(
            us("p50_us") <= us("p90_us") && us("p90_us") <= us("p99_us") && us("p99_us") <= us("max_us"),
            "{latency}"
        );
        assert!(us("sum_us") >= us("max_us") - 1, "{latency}");
    }
    assert!(count(&status["nodes"][1], "peers", "change") > 0, "node 1 asks the leader");
    bed.job.down();
}

/// The leader is stopped: a program of another node waits, and its node says which request does, and for how long.
#[test]
fn a_request_that_waits_is_told_with_its_age_and_then_among_the_slowest() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    write(&bed, 1);
    let stopped = bed.job.stop_node(0);
    let path = bed.mount_of(1).join("new");
    let mut waiting = Ended(Command::new("mkdir").arg(&path).stderr(Stdio::null()).spawn().unwrap());
    let metrics = || bed.job.command("metrics", &[]);
    wait_until("the node tells of a request that waits", PATIENCE, || {
        let printed = metrics().text();
        let oldest = printed.lines().filter(|line| {
            line.starts_with("forebay_oldest_request_seconds")
                && line.contains("node=\"1\"")
                && line.contains("by=\"burst\"")
        });
        oldest.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).any(|age| age > 0.2)
    });
    let printed = metrics();
    assert_eq!(printed.status.code(), Some(3), "a node is silent: {}", printed.stderr);
    assert!(
        printed
            .text()
            .lines()
            .any(|line| line.starts_with("forebay_up{") && line.contains("node=\"0\"") && line.ends_with(" 0"))
    );
    drop(stopped);
    let _ = waiting.0.wait();
    wait_until("it is among the slowest", PATIENCE, || {
        let status = bed.job.status();
        let slowest = status["totals"]["slowest"].as_array().unwrap().clone();
        slowest
            .iter()
            .any(|slow| slow["by"] == "burst" && slow["rank"] == 1 && slow["took_us"].as_u64() > Some(200_000))
    });
    bed.job.down();
}

/// Where the port of a node is, and its token.
fn port_and_token(bed: &Bed) -> (String, String) {
    let mut found = None;
    wait_until("the port is served", PATIENCE, || {
        let metrics = bed.job.status()["nodes"][0]["metrics"].clone();
        let token_file = metrics["token_file"].as_str().map(str::to_owned);
        found = metrics["address"].as_str().map(str::to_owned).zip(token_file);
        found.is_some()
    });
    let (address, token_file) = found.unwrap();
    assert_eq!(fs::metadata(&token_file).unwrap().mode() & 0o777, 0o600);
    (address, fs::read_to_string(token_file).unwrap().trim().to_owned())
}

/// Sends a request and returns all that comes back until the connection ends.
fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may have refused, and closed, before all is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: &str, token: &str) -> String {
    ask(address, format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n").as_bytes())
}

#[test]
fn the_port_takes_the_token_and_refuses_everything_else() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--metrics-listen", "0"]);
    let (address, token) = port_and_token(&bed);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    // Many that say nothing hold up nobody: the oldest of them give way.
    let _idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // A client that says nothing more holds up nobody, and is not waited for.
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(b"GET /metrics HTT").unwrap();
    assert!(get(&address, &token).contains("\nforebay_up{"), "{}", get(&address, &token));
    let with_token = |request: &str| format!("{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    let large = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    for (status, request) in [
        ("401", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_owned()),
        ("401", "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0\r\n\r\n".to_owned()),
        ("405", with_token("POST /metrics")),
        ("404", with_token("GET /other")),
        ("404", with_token("GET /")),
        ("431", large),
        ("400", "no request\r\n\r\n".to_owned()),
    ] {
        let answer = ask(&address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        assert!(!answer.contains("forebay_up"), "{answer}");
    }
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("forebay_up"));
    bed.job.down();
}

#[test]
fn the_next_daemon_has_the_same_port_and_token() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--metrics-listen", "0"]);
    let (address, token) = port_and_token(&bed);
    bed.job.kill_daemon(0);
    wait_until("the next daemon serves them", PATIENCE, || {
        TcpStream::connect(&address).is_ok() && get(&address, &token).contains("forebay_daemon_restarts_total")
    });
    assert_eq!(port_and_token(&bed), (address, token));
    bed.job.down();
}

#[test]
fn a_port_that_is_taken_stops_the_start_and_is_named() {
    require!(Fuse, Root);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let one = ("1", port.as_str(), format!("cannot listen at 127.0.0.1:{port}; another program or node has it"));
    let several = ("2", "9", "2 nodes on one host cannot share a port".to_owned());
    for (nodes, port, why) in [one, several] {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.base().join("backing")).unwrap();
        let arguments = bed::arguments(&sandbox, nodes.parse().unwrap());
        let mut up = sandbox.command();
        let up = run(up.args(["up", "--job", &sandbox.name]).args(arguments).args(["--metrics-listen", port]));
        // The lines are wrapped nowhere: the cause is one line.
        assert!(!up.status.success() && up.stderr.contains(&why), "{}", up.stderr);
    }
}

/// The names of metrics in a text, without what histograms add.
fn names_in(text: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter)).filter(|word| word.starts_with("forebay_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_promtool_find_the_metrics_sound() {
    require!(Fuse, Root, Command("promtool"), Command("curl"));
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = bed::arguments(&sandbox, 2);
    let store = sandbox.base().join("cache-store").display().to_string();
    words.extend(["--cache-store".to_owned(), store, "--cache-capacity".to_owned(), "64MiB".to_owned()]);
    let bed = Bed::up_with(sandbox, &words);
    (0..2).for_each(|node| write(&bed, node));
    let _ = fs::read_dir(bed.job.view(1)).unwrap().count();
    wait_until("programs' requests are exported", PATIENCE, || {
        let printed = bed.job.command("metrics", &[]).good().text();
        ["mount=\"burst\"", "mount=\"view\"", "forebay_log_seconds_count"].iter().all(|part| printed.contains(part))
    });
    let printed = bed.job.command("metrics", &[]).good().text();
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checked = promtool.spawn().unwrap();
    checked.stdin.take().unwrap().write_all(printed.as_bytes()).unwrap();
    let checked = checked.wait_with_output().unwrap();
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
    let exported = names_in(&printed);
    let dashboard = fs::read_to_string(file_of_tests("../packaging/grafana/forebay.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut named = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            for name in names_in(target["expr"].as_str().unwrap()) {
                assert!(exported.contains(&name), "{name} of the panel {}", panel["title"]);
                named += 1;
            }
        }
    }
    assert!(named >= 20, "{named} names");
    // The socket answers HTTP, in OpenMetrics for who asks.
    let socket = bed.job.status()["nodes"][1]["metrics"]["socket"].as_str().unwrap().to_owned();
    let accept = "Accept: application/openmetrics-text";
    let curl =
        run(Command::new("curl").args(["-fsS", "-H", accept, "--unix-socket", &socket, "http://localhost/metrics"]));
    assert!(curl.good().text().ends_with("# EOF\n"));
    let other = run(Command::new("setpriv").args([
        "--reuid=65534",
        "--clear-groups",
        "curl",
        "-sS",
        "--unix-socket",
        &socket,
        "http://localhost/metrics",
    ]));
    assert!(!other.status.success() && !other.text().contains("forebay_up"), "{}", other.text());
    bed.job.down();
}

#[test]
fn a_real_prometheus_scrapes_with_the_token() {
    require!(Fuse, Root, Command("prometheus"));
    let bed = Bed::with(1, &["--metrics-listen", "0"]);
    write(&bed, 0);
    let (address, _) = port_and_token(&bed);
    let token_file = bed.job.status()["nodes"][0]["metrics"]["token_file"].as_str().unwrap().to_owned();
    let base = bed.job.sandbox.base();
    let config = format!(
        "scrape_configs:\n- job_name: forebay\n  honor_labels: true\n  scrape_interval: 1s\n  authorization:\n    credentials_file: {token_file}\n  \
         static_configs:\n  - targets: ['{address}']\n"
    );
    fs::write(base.join("prometheus.yml"), config).unwrap();
    let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _prometheus = start_prometheus(&base, &own);
    let query = |expression: &str| -> Value {
        let request = format!("GET /api/v1/query?query={expression} HTTP/1.0\r\nHost: x\r\n\r\n");
        let answer = TcpStream::connect(&own).map(|_| ask(&own, request.as_bytes())).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    };
    wait_until("Prometheus has the node's metrics", PATIENCE, || {
        query("forebay_burst_capacity_bytes")["data"]["result"].as_array().is_some_and(|found| !found.is_empty())
    });
    let metric = query("forebay_program_request_seconds_count%7Bkind%3D%22fsync%22%7D")["data"]["result"][0].clone();
    assert_eq!(metric["metric"]["mount"], "burst", "{metric}");
    assert_eq!(metric["metric"]["job"], bed.job.sandbox.name.as_str(), "{metric}");
    bed.job.down();
}

fn start_prometheus(base: &Path, own: &str) -> Ended {
    let flag = |name: &str, value: &OsStr| {
        let mut flag = std::ffi::OsString::from(format!("--{name}="));
        flag.push(value);
        flag
    };
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(flag("config.file", base.join("prometheus.yml").as_os_str()));
    prometheus.arg(flag("storage.tsdb.path", base.join("tsdb").as_os_str()));
    prometheus.arg(flag("web.listen-address", own.as_ref()));
    Ended(prometheus.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}
