//! The query path of a daemon: parts of files that this node holds, made for whoever asks.
//!
//! A few parts are made at once, one a thread, so that a query leaves the node to its programs; some more wait, and
//! whoever comes then hears that the node is busy. Making a part changes nothing, and ends when nobody waits for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_offload::arrays::{ArraySource, ArrayTable, Columns};
use forebay_offload::files::{NormalisedColumn, PassOptions, Run, WantedRows, collect_part, encoded_values};
use forebay_offload::{AskedFile, Holds, JobNode, NodeFiles, Speed, Speeds};
use forebay_query::limits::{FIELDS_MAX, GRAMIAN_COLUMNS_MAX};
use forebay_query::{Collected, DescribedColumns, Dialect, Filter, Kept, Keys, OnText, Part, Schema, Separator, Words};
use forebay_store::StoreOptions;
use forebay_transport::Replier;
use forebay_types::threads::{QUERY_LOOKS_MAX, QUERY_PARTS_MAX};
use forebay_types::{Attributes, CHUNK_BYTES, Errno, Generation, Kind, Name, ViewPath};
use forebay_wire::query::{QUERY_FIELDS_MAX, QUERY_GRAMIAN_COLUMNS_MAX};
use forebay_wire::{Outcome, QueryColumn, QueryDialect, QueryMessage, QueryPart, QueryTable, QueryWants};
use tokio::sync::Semaphore;

use super::drafts::{DraftPlace, Drafts, IDLE_MAX};
use super::held::{HeldFile, Way};
use crate::environment::Exports;
use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::write::WriteParts;

/// How long a node may look whether it holds a file: longer than a slow backing file system takes for one name.
const LOOKED_WITHIN: Duration = Duration::from_secs(10);

/// Parts that may wait for each that is made.
const WAITING_EACH: usize = 8;

// A message may request as much as the core takes.
const _: () = assert!(QUERY_GRAMIAN_COLUMNS_MAX == GRAMIAN_COLUMNS_MAX && QUERY_FIELDS_MAX == FIELDS_MAX);

/// Of a file's bytes, how many a node must keep to be taken for one that holds it: the rest comes over the trees.
const KEPT_SHARE: f64 = 0.9;

/// The query path of this node.
pub(crate) struct QueryParts {
    node: Arc<Node>,
    read: Arc<ReadParts>,
    write: Option<Arc<WriteParts>>,
    /// A device's own directory, opened at its first use.
    data: Mutex<Option<Arc<dyn Exports>>>,
    threads: usize,
    turns: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    /// How fast that goes.
    pub speeds: Speeds,
    waiting: AtomicUsize,
    drafts: Drafts,
}

impl QueryParts {
    /// That of a node.
    pub fn new(node: &Arc<Node>, read: &Arc<ReadParts>, write: Option<&Arc<WriteParts>>) -> Arc<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(QUERY_PARTS_MAX);
        let (node, read, write, data) = (Arc::clone(node), Arc::clone(read), write.cloned(), Mutex::default());
        let (turns, looks) = (Arc::new(Semaphore::new(threads)), Arc::new(Semaphore::new(QUERY_LOOKS_MAX)));
        let (speeds, waiting) = (Speeds::default(), AtomicUsize::new(0));
        let drafts = Drafts::default();
        Arc::new(Self { node, read, write, data, threads, turns, looks, speeds, waiting, drafts })
    }

    /// Takes a request of another node.
    pub fn take(self: &Arc<Self>, message: QueryMessage, remaining: Duration, reply: Replier) {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let given_up = Arc::clone(&is_given_up);
        reply.on_cancel(move || given_up.store(true, Ordering::Relaxed));
        let this = Arc::clone(self);
        drop(self.node.spawn(async move {
            match this.answer(message, remaining, is_given_up).await {
                Ok(bytes) => reply.answer(Outcome::Body, Some(Body::whole(bytes))),
                Err(errno) => reply.answer(Outcome::Failed(errno), None),
            }
        }));
    }

    /// Answers a request.
    pub async fn answer(
        self: &Arc<Self>,
        message: QueryMessage,
        remaining: Duration,
        is_given_up: Arc<AtomicBool>,
    ) -> Result<Bytes, Errno> {
        match message {
            QueryMessage::Part(part) => {
                let make = move |this: &Arc<Self>, given_up| this.make(part, given_up);
                self.in_turn(remaining, is_given_up, make).await
            }
            QueryMessage::Column(column) => {
                let number = column.draft.as_ref().map(|draft| draft.number);
                let make = move |this: &Arc<Self>, given_up| this.make_column(column, given_up);
                let made = self.in_turn(remaining, is_given_up, make).await;
                if let Some(number) = number {
                    self.drop_when_idle(number);
                }
                made
            }
            QueryMessage::EndDraft { number, publishes } => {
                let end = move |this: &Arc<Self>, _| {
                    let directory = this.node.options.data.as_ref().ok_or(Errno::EXDEV)?;
                    this.drafts.end(directory, number, publishes).map(encoded)
                };
                self.in_turn(remaining, is_given_up, end).await
            }
            // `Statements` has them.
            QueryMessage::OpenStream(_) | QueryMessage::PullStream { .. } => Err(Errno::EINVAL),
        }
    }

    /// Has something made on a thread when it is its turn.
    async fn in_turn(
        self: &Arc<Self>,
        remaining: Duration,
        is_given_up: Arc<AtomicBool>,
        make: impl FnOnce(&Arc<Self>, Arc<AtomicBool>) -> Result<Bytes, Errno> + Send + 'static,
    ) -> Result<Bytes, Errno> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.threads * (1 + WAITING_EACH) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::EBUSY);
        }
        // A caller that waits no longer drops this, or hears that it came to nothing.
        let _end = OnDrop(&self.waiting, &is_given_up);
        let turn = tokio::time::timeout(remaining, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Errno::ETIMEDOUT) };
        let (this, given_up) = (Arc::clone(self), Arc::clone(&is_given_up));
        let made = self.node.block_long(move || {
            let made = make(&this, given_up);
            // Not before: a read that hangs has its thread as long as it hangs.
            drop(turn);
            made
        });
        match tokio::time::timeout(remaining, made).await {
            Ok(made) => made.unwrap_or(Err(Errno::EIO)),
            Err(_) => Err(Errno::ETIMEDOUT),
        }
    }

    /// Drops a draft that nobody goes on with from now on.
    fn drop_when_idle(self: &Arc<Self>, number: u64) {
        let Some(next) = self.drafts.next(number) else { return };
        let this = Arc::clone(self);
        drop(self.node.spawn(async move {
            tokio::time::sleep(IDLE_MAX).await;
            let parts = Arc::clone(&this);
            let _ = this.node.block(move || parts.drafts.drop_idle(number, next)).await;
        }));
    }

    /// Where programs on this node find files, all of which it must hold.
    pub async fn places(self: &Arc<Self>, files: Vec<(ViewPath, AskedFile)>) -> Result<Vec<PathBuf>, String> {
        let this = Arc::clone(self);
        let of = move |(file, asked): &(ViewPath, AskedFile)| {
            this.place(file, asked).map_err(|errno| match errno {
                Errno::ESTALE => format!("{} has changed since the statement began", asked.path),
                errno => format!("{}: this node does not hold it: {errno}", asked.path),
            })
        };
        let looked = self.look(move || files.iter().map(of).collect()).await;
        looked.unwrap_or_else(|| Err("the daemon ends".to_owned()))
    }

    /// Has something looked up that may hang, on one of few threads.
    async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let turn = Arc::clone(&self.looks).acquire_owned().await.ok()?;
        let look = move || {
            let found = look();
            drop(turn);
            found
        };
        self.node.block_long(look).await
    }

    /// Where a program on this node finds a file that the node holds in this version. May block.
    fn place(&self, file: &ViewPath, asked: &AskedFile) -> Result<PathBuf, Errno> {
        use std::os::unix::ffi::OsStrExt;
        let (holds, found) = self.version(file).ok_or(Errno::ENOENT)?;
        // Inode numbers differ between nodes.
        if (found.size_bytes, (found.mtime.seconds, found.mtime.nanos)) != (asked.size_bytes, asked.modified) {
            return Err(Errno::ESTALE);
        }
        // A cached file is read as programs read it; any other file where it lies.
        let above = match holds {
            Holds::Cache => self.node.options.view.as_path(),
            // SQL is not told of them.
            Holds::Burst => return Err(Errno::EXDEV),
            Holds::Device | Holds::Backing => Path::new("/"),
        };
        Ok(above.join(OsStr::from_bytes(file.as_bytes())))
    }

    /// Those of some files that this node can read; None if it can read none.
    pub async fn files(self: &Arc<Self>, files: Vec<ViewPath>, wants: QueryWants) -> Option<NodeFiles> {
        let this = Arc::clone(self);
        let found = move || {
            let (mut held, mut readable) = (vec![], vec![]);
            for (index, file) in files.iter().enumerate() {
                match this.holds(file) {
                    Some((holds, version)) => held.push((index, holds, version)),
                    None if this.can_read(file) => readable.push(index),
                    None => {}
                }
            }
            if held.is_empty() && readable.is_empty() {
                return None;
            }
            Some((held, readable, this.speeds.speed(collected(wants), this.threads)))
        };
        let (held, readable, Speed { bytes_per_s, burst }) =
            tokio::time::timeout(LOOKED_WITHIN, self.look(found)).await.ok()???;
        let (rank, threads) = (self.node.rank(), self.threads);
        let host = self.node.host(rank).to_owned();
        let burst = (burst.bytes, burst.bytes_per_s);
        let has_own = held.iter().any(|(_, holds, _)| *holds == Holds::Device);
        let data = self.node.options.data.clone().filter(|_| has_own);
        Some(NodeFiles { node: JobNode { rank: rank.0, host, threads, bytes_per_s, burst, data }, held, readable })
    }

    /// By which right this node holds a file, and in which version. Only roots look at the backing file system: all nodes of a large
    /// job would be a burden to it. May block.
    fn holds(&self, file: &ViewPath) -> Option<(Holds, Generation)> {
        if let Some(data) = self.own_exports(file) {
            return Some((Holds::Device, attributes(&*data, file)?.generation()));
        }
        if self.in_burst(file).is_some() {
            // Which logs have its bytes, and of which version, the node knows that asks the tree.
            return Some((Holds::Burst, Generation::default()));
        }
        if let Some(generation) = self.kept(file) {
            return Some((Holds::Cache, generation));
        }
        let is_root = self.node.forest.is_root(self.node.rank());
        let exports = if is_root { self.read.backing.shared_store() } else { None };
        Some((Holds::Backing, attributes(&*exports?, file)?.generation()))
    }

    /// Whether this node can read a file if that lies on the backing file system, of which roots know. May block.
    fn can_read(&self, file: &ViewPath) -> bool {
        let is_elsewhere = self.own_exports(file).is_some() || self.in_burst(file).is_some();
        !is_elsewhere && self.read.backing.shared_store().is_some()
    }

    /// The version of a file that this node holds, or finds where it can read it. May block.
    fn version(&self, file: &ViewPath) -> Option<(Holds, Generation)> {
        self.holds(file).or_else(|| {
            let exports = self.read.backing.shared_store().filter(|_| self.can_read(file))?;
            Some((Holds::Backing, attributes(&*exports, file)?.generation()))
        })
    }

    /// The burst tier, if the file lies in it.
    fn in_burst(&self, file: &ViewPath) -> Option<&Arc<WriteParts>> {
        self.write.as_ref().filter(|write| write.holds_path(file))
    }

    /// The version of a file of which this node keeps enough.
    fn kept(&self, file: &ViewPath) -> Option<Generation> {
        let (generation, chunks) = self.read.core.lock().kept_of(file)?;
        let all = generation.size_bytes.div_ceil(CHUNK_BYTES);
        (chunks > 0 && chunks as f64 >= KEPT_SHARE * all as f64).then_some(generation)
    }

    /// The directory of this device, if the file lies in it. May block.
    fn own_exports(&self, file: &ViewPath) -> Option<Arc<dyn Exports>> {
        use std::os::unix::ffi::OsStrExt;
        let directory = self.node.options.data.as_ref()?;
        let own = ViewPath::from_absolute(directory.as_os_str().as_bytes()).ok()?;
        if !file.is_within(&own) {
            return None;
        }
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        if data.is_none() {
            match self.open(directory) {
                Ok(exports) => *data = Some(exports),
                Err(error) => tracing::warn!("{error:#}"),
            }
        }
        data.clone()
    }

    fn open(&self, directory: &Path) -> anyhow::Result<Arc<dyn Exports>> {
        let options = &self.node.options;
        self.node.environment.open_exports(StoreOptions {
            exports: vec![directory.to_owned()],
            others_enter: options.allow_other,
            listing_entries_full: options.listing_entries_full,
            descriptors: self.threads * 2,
            operations_max: self.threads,
            read_bytes: options.store_read_bytes(),
            pool: self.node.pool.clone(),
            hidden: vec![options.view.clone(), options.job_directory.clone()],
        })
    }

    /// A file, by the way that this node has to it.
    fn held(&self, file: &ViewPath, generation: Generation, is_given_up: &Arc<AtomicBool>) -> Result<HeldFile, Errno> {
        let way = match (self.own_exports(file), self.in_burst(file)) {
            (Some(data), _) => Way::Exports(data),
            (None, Some(write)) => {
                Way::Burst(Arc::clone(&self.node), self.node.wait_for(write.committed(file, generation))?)
            }
            (None, None) if self.kept(file) == Some(generation) => Way::View(Arc::clone(&self.read)),
            // Over the trees all bytes would come from a few nodes, and take room where programs keep theirs.
            _ => match self.read.backing.shared_store() {
                Some(exports) => Way::Exports(exports),
                None => Way::View(Arc::clone(&self.read)),
            },
        };
        Ok(HeldFile::new(way, file.clone(), generation, Arc::clone(is_given_up)))
    }

    /// Makes a part on this thread.
    fn make(&self, part: QueryPart, is_given_up: Arc<AtomicBool>) -> Result<Bytes, Errno> {
        let QueryPart { file, generation, counts_bytes, table, first, blocks, begins_quoted } = part;
        let held = Arc::new(self.held(&file, generation, &is_given_up)?);
        let is_any = |is: fn(&QueryTable) -> bool| table.as_ref().is_some_and(is);
        let collected = Collected {
            bytes: counts_bytes,
            columns: table.is_some(),
            sums: table.is_some(),
            gramian: is_any(|table| table.gramian),
            covariance: is_any(|table| table.covariance),
            described: is_any(|table| !table.described_numbers.is_empty() || !table.described_texts.is_empty()),
        };
        let table = table.map(Rows::of).transpose()?;
        let columns = table.as_ref().map(|rows| rows.open(Arc::clone(&held), &file));
        let columns = columns.transpose().map_err(|error| failed(&error))?;
        let table = table.as_ref().map(Rows::wanted);
        let options = PassOptions { collected, threads: 1, done_bytes: &AtomicU64::new(0), is_given_up: &is_given_up };
        let part = Part { index: 0, first, blocks, begins_quoted };
        self.speeds.begin(collected);
        let made = match columns.flatten() {
            Some(columns) => collect_part(&columns, table, options, part),
            None => collect_part(&*held, table, options, part),
        };
        let bytes = u64::from(blocks) * forebay_query::limits::BLOCK_BYTES;
        self.speeds.end(if made.is_ok() { bytes.min(generation.size_bytes) } else { 0 });
        made.map(|state| Bytes::from(state.encode())).map_err(|error| failed(&error))
    }

    /// Makes some blocks of a column on this thread; those of a draft on as many as the node has.
    fn make_column(&self, asked: QueryColumn, is_given_up: Arc<AtomicBool>) -> Result<Bytes, Errno> {
        let QueryColumn { file, generation, table, first, blocks, begins_quoted, mean_bits, deviation_bits, draft } =
            asked;
        let held = self.held(&file, generation, &is_given_up)?;
        let Rows { data_sets, schema, columns, .. } = Rows::of(table)?;
        let (mean, deviation) = (f64::from_bits(mean_bits), f64::from_bits(deviation_bits));
        if columns.is_empty() || !data_sets.is_empty() {
            return Err(Errno::EINVAL);
        }
        let column = NormalisedColumn { schema: &schema, columns: &columns, mean, deviation };
        let run = Run { first, end: first + u64::from(blocks), begins_quoted };
        let collected = Collected { columns: true, ..Collected::default() };
        let options = PassOptions { collected, threads: 1, done_bytes: &AtomicU64::new(0), is_given_up: &is_given_up };
        let Some(draft) = draft else {
            return encoded_values(&held, &column, run, options).map(Bytes::from).map_err(|error| failed(&error));
        };
        let options = PassOptions { threads: self.threads, ..options };
        let place = self.draft_place(&file, &draft.output)?;
        let rows = self.drafts.append(place, &draft, (&held, generation), &column, run, options);
        rows.map(encoded).map_err(|error| failed(&error))
    }

    /// Where a device writes what it makes of a file of its own: in its own directory.
    fn draft_place(&self, file: &ViewPath, output: &ViewPath) -> Result<DraftPlace<'_>, Errno> {
        use std::os::unix::ffi::OsStrExt;
        let data = self.own_exports(file).ok_or(Errno::EXDEV)?;
        let directory = self.node.options.data.as_deref().ok_or(Errno::EXDEV)?;
        let own = ViewPath::from_absolute(directory.as_os_str().as_bytes()).map_err(|_| Errno::EXDEV)?;
        let below = output.as_bytes().strip_prefix(own.as_bytes()).filter(|_| output.is_within(&own));
        let below = below.and_then(|below| ViewPath::from_absolute(below).ok()).ok_or(Errno::EXDEV)?;
        let mode = attributes(&*data, file).ok_or(Errno::ESTALE)?.mode;
        Ok(DraftPlace { directory, output: below, mode })
    }
}

/// Why a part was not made, as it travels.
fn failed(error: &anyhow::Error) -> Errno {
    tracing::debug!("a part of a query: {error:#}");
    error.downcast_ref::<Errno>().copied().unwrap_or(Errno::EIO)
}

/// A number as it travels.
fn encoded(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

/// A part that is under way; whoever makes it is told when it is not any more.
struct OnDrop<'a>(&'a AtomicUsize, &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        self.1.store(true, Ordering::Relaxed);
    }
}

/// The results that a pass collects for a request.
pub(crate) fn collected(wants: QueryWants) -> Collected {
    let QueryWants { counts_bytes: bytes, rows: columns, gramian, described } = wants;
    Collected { bytes, columns, sums: columns, gramian, covariance: false, described }
}

/// The attributes of a regular file.
fn attributes(exports: &dyn Exports, file: &ViewPath) -> Option<Attributes> {
    let (dir, name) = file.split()?;
    let record = exports.lookup(&dir, &Name::new(name).ok()?).ok()??;
    (record.attributes.kind() == Kind::File).then_some(record.attributes)
}

/// The rows of a request.
struct Rows {
    /// The data sets that are the table; none: it is text.
    data_sets: Vec<String>,
    /// As much of one as a pass needs.
    schema: Schema,
    columns: Vec<usize>,
    described: DescribedColumns,
    on_text: OnText,
    filter: Option<Filter>,
    by: Option<usize>,
}

impl Rows {
    /// Those of a table whose columns are among its fields.
    fn of(table: QueryTable) -> Result<Self, Errno> {
        let QueryTable { dialect, data_sets, fields, rows_from, columns, described_numbers, .. } = table;
        let (described_texts, filter) = (table.described_texts, table.filter);
        let (text_is_missing, by) = (table.text_is_missing, table.by.map(usize::from));
        let QueryDialect { separator, point, comment, missing, keys } = dialect;
        if !keys.is_empty() && keys.len() != usize::from(fields) {
            return Err(Errno::EINVAL);
        }
        let separator = match separator {
            _ if !data_sets.is_empty() => Separator::Doubles,
            _ if !keys.is_empty() => Separator::Json,
            Some(byte) => Separator::Byte(byte),
            None => Separator::Blanks,
        };
        let keys = Keys::new(&keys);
        let missing = Words::new(&missing).map_err(|_| Errno::EINVAL)?;
        let dialect = Dialect { separator, point, comment, missing, keys };
        if !dialect.is_sound() {
            return Err(Errno::EINVAL);
        }
        let schema = Schema::of_rows(dialect, usize::from(fields), rows_from);
        let on_text = if text_is_missing { OnText::Missing } else { OnText::Bad };
        let indices = |columns: Vec<u16>| columns.into_iter().map(usize::from).collect();
        let described = DescribedColumns { numbers: indices(described_numbers), texts: indices(described_texts) };
        let filter = match &filter[..] {
            [] => None,
            filter => Some(Filter::decode(filter, schema.numeric.len()).ok_or(Errno::EINVAL)?),
        };
        Ok(Self { data_sets, schema, columns: indices(columns), described, on_text, filter, by })
    }

    /// The table of a file's data sets; None if it is text.
    fn open(&self, held: Arc<HeldFile>, name: &ViewPath) -> anyhow::Result<Option<Columns>> {
        if self.data_sets.is_empty() {
            return Ok(None);
        }
        let table = Arc::new(ArrayTable::open_again(ArraySource::File(held), &self.data_sets)?);
        anyhow::ensure!(table.columns() == self.schema.numeric.len(), "the file has other data sets");
        Ok(Some(table.only(&self.wanted().kept, name.to_string())))
    }

    fn wanted(&self) -> WantedRows<'_> {
        let Self { schema, columns, described, on_text, filter, by, .. } = self;
        let kept = Kept { columns, described, on_text: *on_text, filter: filter.as_ref(), by: *by };
        WantedRows { schema, kept }
    }
}
