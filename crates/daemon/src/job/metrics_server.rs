//! Metrics by HTTP: at a Unix socket in the job's directory, and at a TCP port where the options name one.
//!
//! The socket takes the job's user and root, as the control socket does. The port takes whoever has the token, which lies in a file that only
//! the job's user may read. Requests are few and small, so each connection takes one and has little time for it: a client that is slow
//! holds one place of a few, and no memory beyond its head.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use forebay_launch::JobDirectory;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};

use super::control::is_own_user;
use super::open_metrics::{Format, encode};
use super::requests::Job;
use crate::shared::node::{MetricsPlaces, Node};

/// Clients that are served at the same time, by each listener. If all of them have asked, others wait in the kernel's queue.
const CLIENTS_MAX: usize = 8;

/// How long a client may take in all: a scrape takes milliseconds, and Prometheus gives it 10 s.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it may take to send its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest head of a request, bytes; 8,192 is the least that the server takes.
const HEAD_BYTES_MAX: usize = 8192;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// How long a daemon that goes on waits before it tries again to have the port.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Serves a node's metrics for as long as its daemon runs. The first daemon of a node has its places before it is ready.
///
/// # Errors
/// Why it cannot have them.
pub async fn start(node: &Arc<Node>, job: &Arc<Job>) -> anyhow::Result<impl Future<Output = ()> + Send + use<>> {
    let opened = if node.options.kept.is_first() { Some(Listeners::open(node).await?) } else { None };
    let (node, job) = (Arc::clone(node), Arc::clone(job));
    Ok(async move {
        let opened = match opened {
            Some(opened) => Ok(opened),
            None => Listeners::open(&node).await,
        };
        match opened {
            Ok(listeners) => listeners.serve(job).await,
            Err(error) => tracing::warn!("no metrics are served: {error:#}"),
        }
    })
}

/// The listeners of a node, before they are served.
struct Listeners {
    unix: UnixListener,
    tcp: Option<(TcpListener, Arc<str>)>,
    places: MetricsPlaces,
}

/// The files of a node in its job's directory.
struct Places {
    socket: PathBuf,
    token: PathBuf,
    address: PathBuf,
    /// Labels for the metrics of this node, for those who find no daemon.
    labels: PathBuf,
}

impl Places {
    fn of(node: &Node) -> Self {
        let place = |end| JobDirectory::metrics_place(&node.options.job_directory, node.rank(), end);
        Self { socket: place("sock"), token: place("token"), address: place("address"), labels: place("labels") }
    }
}

impl Listeners {
    /// Those that the options name. A daemon that goes on for another gets that one's port, which it may have to wait for.
    ///
    /// # Errors
    /// Which of them cannot be had, and why.
    async fn open(node: &Node) -> anyhow::Result<Self> {
        let places = Places::of(node);
        let host = node.options.nodes.get(node.rank().0 as usize).map(|node| &node.host);
        let labels = serde_json::json!({"labels": node.options.labels, "host": host});
        fs::write(&places.labels, labels.to_string())
            .with_context(|| format!("cannot write {}", places.labels.display()))?;
        let unix = listen_unix(&places.socket)
            .with_context(|| format!("cannot make the socket of metrics, {}", places.socket.display()))?;
        let mut told = MetricsPlaces { socket: text(&places.socket), ..MetricsPlaces::default() };
        let Some(wanted) = node.options.metrics_listen else { return Ok(Self { unix, tcp: None, places: told }) };
        let token = token(&places.token)?;
        let before = fs::read_to_string(&places.address).ok().and_then(|text| text.trim().parse().ok());
        let is_first = node.options.kept.is_first();
        let address = before.filter(|_| !is_first).unwrap_or(wanted);
        let listener = listen_tcp(address, is_first).await?;
        let bound = listener.local_addr().context("the address of metrics")?;
        fs::write(&places.address, format!("{bound}\n"))
            .with_context(|| format!("cannot write {}", places.address.display()))?;
        told.address = Some(bound);
        told.token_file = Some(text(&places.token));
        Ok(Self { unix, tcp: Some((listener, token)), places: told })
    }

    /// Serves them for as long as the daemon runs.
    async fn serve(self, job: Arc<Job>) {
        let Self { unix, tcp, places } = self;
        if let Some(address) = places.address {
            tracing::info!(%address, "metrics are served");
        }
        let _ = job.node.metrics_places.set(places);
        let unix = serve_unix(unix, Arc::clone(&job));
        let tcp = async move {
            if let Some((listener, token)) = tcp {
                serve_tcp(listener, job, token).await;
            }
        };
        tokio::join!(unix, tcp);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A socket of the daemon before is left where that died.
fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A first daemon is told at its start that it cannot have its port. A later one serves programs, so it waits for the port.
async fn listen_tcp(address: SocketAddr, is_first: bool) -> anyhow::Result<TcpListener> {
    let mut is_told = false;
    loop {
        let error = match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => error,
        };
        if is_first {
            let hint = match error.kind() {
                ErrorKind::AddrInUse => "; another program or node has it: choose another port, or 0 for a free one",
                ErrorKind::AddrNotAvailable => "; this host has no such address: give one of its own, or a port alone",
                _ => "",
            };
            return Err(
                anyhow::Error::new(error).context(format!("--metrics-listen: cannot listen at {address}{hint}"))
            );
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!(%address, %error, "metrics cannot be served at their address yet");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// The token that a daemon before has made, or a new one. A file that others may have prepared is refused.
fn token(path: &Path) -> anyhow::Result<Arc<str>> {
    let mut random = [0; TOKEN_BYTES];
    getrandom(&mut random, GetRandomFlags::empty()).context("no random numbers for the token of metrics")?;
    let new: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // Neither a link is followed nor a pipe waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let open = |options: &mut OpenOptions| options.mode(0o600).custom_flags(flags).open(path);
    let failed = || format!("--metrics-listen: cannot use the file of the token, {}", path.display());
    match open(OpenOptions::new().write(true).create_new(true)) {
        Ok(mut file) => file.write_all(format!("{new}\n").as_bytes()).map(|()| new.into()).with_context(failed),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            read_token(open(OpenOptions::new().read(true)).with_context(failed)?).with_context(failed)
        }
        Err(error) => Err(error).with_context(failed),
    }
}

fn read_token(file: fs::File) -> anyhow::Result<Arc<str>> {
    let found = file.metadata()?;
    ensure!(found.is_file() && found.nlink() == 1, "it is not a file of its own");
    ensure!(found.uid() == rustix::process::geteuid().as_raw(), "it belongs to user {}", found.uid());
    ensure!(found.mode() & 0o077 == 0, "others may read or change it (mode {:04o})", found.mode() & 0o7777);
    let mut text = String::new();
    file.take(4 * TOKEN_BYTES as u64).read_to_string(&mut text)?;
    let text = text.trim_end();
    let is_token = text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_token { Ok(text.into()) } else { bail!("it holds no token; remove it") }
}

async fn serve_unix(listener: UnixListener, job: Arc<Job>) {
    let mut clients = Clients::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_own_user(&stream) => {
                clients.add(|has_asked| serve_client(stream, Arc::clone(&job), None, has_asked)).await;
            }
            Ok(_) => tracing::warn!("another user's connection to the socket of metrics was refused"),
            Err(error) => pause_after(&error).await,
        }
    }
}

async fn serve_tcp(listener: TcpListener, job: Arc<Job>, token: Arc<str>) {
    let mut clients = Clients::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let token = Some(Arc::clone(&token));
                clients.add(|has_asked| serve_client(stream, Arc::clone(&job), token, has_asked)).await;
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// The clients of a listener. If there are many, the oldest that has not asked yet gives way: one that says nothing keeps no other.
#[derive(Default)]
struct Clients {
    tasks: JoinSet<()>,
    /// Each with whether its head has come, the oldest first.
    served: VecDeque<(AbortHandle, Arc<AtomicBool>)>,
}

impl Clients {
    /// Serves one more, once there is a place.
    async fn add<F: Future<Output = ()> + Send + 'static>(&mut self, serve: impl FnOnce(Arc<AtomicBool>) -> F) {
        self.make_room().await;
        let has_asked = Arc::<AtomicBool>::default();
        let task = self.tasks.spawn(serve(Arc::clone(&has_asked)));
        self.served.push_back((task, has_asked));
    }

    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.served.retain(|(task, _)| !task.is_finished());
            if self.served.len() < CLIENTS_MAX {
                return;
            }
            match self.served.iter().position(|(_, has_asked)| !has_asked.load(Ordering::Relaxed)) {
                Some(idle) => self.served.remove(idle).iter().for_each(|(task, _)| task.abort()),
                None => drop(self.tasks.join_next().await),
            }
        }
    }
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "accepting a client of metrics");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn serve_client(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    job: Arc<Job>,
    token: Option<Arc<str>>,
    has_asked: Arc<AtomicBool>,
) {
    let answer = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let response = answer(&request, token.as_deref(), || {
            let format = format_for(request.headers());
            (encode(&[job.own_status()], &job.node.options.labels, format), format)
        });
        async { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match tokio::time::timeout(CLIENT_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a client of metrics"),
        Err(_) => tracing::debug!("a client of metrics took too long"),
    }
}

/// The answer; metrics are made only for who may have them.
fn answer(
    request: &Request<Incoming>,
    token: Option<&str>,
    metrics: impl FnOnce() -> (String, Format),
) -> Response<Full<Bytes>> {
    let refusal = |status: StatusCode, why: &'static str| {
        let mut response = Response::new(Full::from(why));
        *response.status_mut() = status;
        response
    };
    if token.is_some_and(|token| !has_token(request.headers(), token)) {
        let mut refused = refusal(
            StatusCode::UNAUTHORIZED,
            "the token in the job's directory is needed: Authorization: Bearer TOKEN\n",
        );
        refused.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
        return refused;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refused.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if request.uri().path() != "/metrics" {
        return refusal(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    let (text, format) = metrics();
    let mut response = Response::new(Full::from(text));
    let kind = match format {
        Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
    };
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// OpenMetrics where the client asks for it, as Prometheus does.
fn format_for(headers: &HeaderMap) -> Format {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match accepts.into_iter().any(|value| value.contains("application/openmetrics-text")) {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    }
}

/// Compared in full, so that the time tells nothing of where they differ.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let Some(given) = headers.get(AUTHORIZATION).map(|value| value.as_bytes()) else { return false };
    let (scheme, given) = given.split_at(given.len().min("Bearer ".len()));
    let differ = given.iter().zip(token.as_bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == token.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells when it is over, however that came.
    struct Told(Arc<std::sync::Mutex<Vec<usize>>>, usize);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }

    #[tokio::test]
    async fn the_oldest_client_that_has_not_asked_gives_way() {
        let over = Arc::<std::sync::Mutex<Vec<usize>>>::default();
        let (go, gone) = tokio::sync::watch::channel(false);
        let mut clients = Clients::default();
        let client = |number: usize, asks: bool| {
            let (told, mut gone) = (Told(Arc::clone(&over), number), gone.clone());
            move |has_asked: Arc<AtomicBool>| async move {
                let _told = told;
                has_asked.store(asks, Ordering::Relaxed);
                gone.wait_for(|gone| *gone).await.ok();
            }
        };
        clients.add(client(0, true)).await;
        for number in 1..CLIENTS_MAX {
            clients.add(client(number, false)).await;
        }
        tokio::task::yield_now().await;
        for number in CLIENTS_MAX..2 * CLIENTS_MAX - 1 {
            clients.add(client(number, true)).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(*over.lock().unwrap(), (1..CLIENTS_MAX).collect::<Vec<_>>());
        // All have asked now: the next one waits until one has had its answer.
        let mut next = Box::pin(clients.add(client(99, false)));
        let waits = tokio::time::timeout(Duration::ZERO, &mut next).await;
        assert!(waits.is_err() && over.lock().unwrap().len() == CLIENTS_MAX - 1);
        go.send(true).unwrap();
        next.await;
    }

    fn headers(name: hyper::header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn only_the_token_itself_is_taken() {
        let token = "ab".repeat(TOKEN_BYTES);
        let given = |text: &str| has_token(&headers(AUTHORIZATION, text), &token);
        assert!(given(&format!("Bearer {token}")) && given(&format!("bearer {token}")));
        for wrong in ["", "Bearer", "Bearer ", &token, &format!("Bearer {token}0"), &format!("Bearer {}", &token[1..])]
        {
            assert!(!given(wrong), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), &token));
    }

    #[test]
    fn a_planted_file_is_no_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let made = token(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(token(&path).unwrap(), made, "the next daemon has the same");
        let refused = |why: &str| {
            let error = format!("{:#}", token(&path).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        refused("others may read");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&path, directory.path().join("other")).unwrap();
        refused("file of its own");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(directory.path().join("other"), &path).unwrap();
        refused("token");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "guessed\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        refused("holds no token");
    }

    #[test]
    fn openmetrics_are_for_who_asks_for_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
        assert_eq!(format_for(&headers(ACCEPT, prometheus)), Format::OpenMetrics);
        assert_eq!(format_for(&headers(ACCEPT, "*/*")), Format::Prometheus);
    }
}
