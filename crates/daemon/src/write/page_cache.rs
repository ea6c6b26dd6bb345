//! Beliefs of this node's kernel about files: their attributes for a time, and the pages that it has read.
//!
//! A program that reads looks at the file's attributes first, which the kernel believes until it is told better or their time is
//! over. So another node's change is seen when the kernel has been told, which is before the change is answered, or when the
//! attributes are asked for again. `forebay_write::Pages` decides what is dropped when.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forebay_fuse::{Notifier, Reply};
use forebay_types::{Attributes, Errno, FileId, Kind, Map, Time};
use forebay_wire::write::FileState;
use forebay_write::{ANSWER_TAKEN_IN, AskedFor, Dropping, Invalidated, LEASE_TTL, Late, Pages, Telling};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::kernel_ids::node_of;
use super::kernel_leases::KernelLeases;

/// How much earlier than its lease a belief of the kernel ends, which counts from when it reads the answer.
const EARLIER: Duration = Duration::from_secs(1);

/// Answers that wait for droppings: more than programs of a node ask at the same time. Where a page is read for long, the kernel's requests
/// that are kept have to suffice for others.
const ANSWERS_MAX: usize = 1024;

/// See the module.
pub struct PageCache {
    known: Mutex<Known>,
    began: Instant,
    notifier: OnceLock<Notifier>,
    kernel_leases: KernelLeases,
    /// Whether the kernel may believe what a daemon before this one has told.
    has_earlier: bool,
}

#[derive(Default)]
struct Known {
    pages: Pages,
    /// Answers that wait until pages have been dropped.
    waiting: Map<Dropping, Vec<(Attributes, Reply)>>,
    waits: usize,
    /// How many questions of the kernel about a file's attributes are being answered.
    asked: Map<FileId, usize>,
}

/// A dropping that is under way. When this is dropped, answers that wait for it are given, whatever has become of it.
pub struct UnderWay {
    cache: Arc<PageCache>,
    dropping: Dropping,
    dropped: Result<(), Errno>,
    /// Waits for this and others.
    over: Option<mpsc::UnboundedSender<Result<(), Errno>>>,
}

/// A question of the kernel about a file's attributes that is being answered.
pub struct Asked {
    cache: Arc<PageCache>,
    file: FileId,
    purpose: AskedFor,
    /// How often something had been forgotten before.
    forgotten: u64,
}

/// A file's state to be told to the kernel.
pub struct ToTell {
    /// The file without what is pending.
    pub state: FileState,
    /// The file as programs see it.
    pub attributes: Attributes,
    /// How long that holds unless this node is told otherwise.
    pub lease: Duration,
}

impl PageCache {
    pub fn new(is_first_daemon: bool, kernel_leases: KernelLeases) -> Arc<Self> {
        let unknown = || Pages::unknown(Time::default().after(kernel_leases.left()));
        let pages = if is_first_daemon { Pages::default() } else { unknown() };
        let (began, notifier) = (Instant::now(), OnceLock::new());
        let known = Mutex::new(Known { pages, ..Known::default() });
        Arc::new(Self { known, began, notifier, kernel_leases, has_earlier: !is_first_daemon })
    }

    /// Whether a daemon before this one has served the mount: what programs had open then, this one has not seen opened.
    pub fn has_earlier(&self) -> bool {
        self.has_earlier
    }

    /// The kernel can be told from now on.
    pub fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// The kernel asks for a file's attributes.
    pub fn ask(self: &Arc<Self>, file: FileId, purpose: AskedFor) -> Asked {
        let mut known = self.known();
        *known.asked.entry(file).or_default() += 1;
        Asked { cache: Arc::clone(self), file, purpose, forgotten: known.pages.forgotten() }
    }

    /// The kernel is about to be given bytes of a file, which is as `state` says.
    pub fn fill(&self, state: &FileState) {
        self.known().pages.fill(self.now(), state);
    }

    /// Whether who opens a file may go on with the pages that the kernel has.
    pub fn is_current(&self, state: &FileState) -> bool {
        self.known().pages.are_current(state)
    }

    /// Tells the kernel a file's attributes. No file can be forgotten at that moment. If old pages are to be dropped before, the caller goes on with
    /// `drop_before`.
    pub fn tell(self: &Arc<Self>, asked: &Asked, told: &ToTell, reply: Reply) -> Option<(UnderWay, Reply)> {
        let mut known = self.known();
        let (now, pages) = (self.now(), &mut known.pages);
        let leased_until = now.after(told.lease);
        let telling = match (told.state.attributes.kind(), self.notifier.get()) {
            (Kind::File, Some(_)) => pages.tell(now, &told.state, asked.purpose, leased_until),
            _ => Telling::Once,
        };
        match telling {
            Telling::Leased
                if pages.forgotten() == asked.forgotten
                    && told.lease > EARLIER
                    && self.kernel_leases.note(told.lease - EARLIER) =>
            {
                pages.believe(told.state.file, leased_until);
                reply.attributes(&told.attributes, told.lease - EARLIER);
            }
            Telling::Leased | Telling::Once => reply.attributes(&told.attributes, Duration::ZERO),
            Telling::After(dropping) => known.wait(dropping, told, reply),
            Telling::Dropped(dropping) => return Some((self.begin(dropping, None), reply)),
        }
        None
    }

    /// Has the kernel drop a file's pages, which then is as large as `last` says by its size and last byte, and then tells it the file's attributes.
    pub fn drop_before(&self, under_way: UnderWay, last: Option<(u64, u8)>, told: &ToTell, reply: Reply) {
        self.known().wait(under_way.dropping, told, reply);
        self.drop_pages(under_way, last);
    }

    /// Files are not what they were; none means all. The kernel has nothing of them afterwards, or asks before it goes on with that.
    ///
    /// # Errors
    /// EAGAIN while the kernel cannot be told.
    pub async fn invalidate(self: &Arc<Self>, files: &[FileId]) -> Result<(), Errno> {
        if self.notifier.get().is_none() {
            return if self.has_earlier { Err(Errno::EAGAIN) } else { Ok(()) };
        }
        let (Invalidated { droppings, late }, others_until) = {
            let Known { pages, asked, .. } = &mut *self.known();
            (pages.invalidate(self.now(), files, |file| asked.contains_key(file)), pages.other_leases_until())
        };
        if !late.is_empty() {
            drop(tokio::spawn(Arc::clone(self).drop_late(late)));
        }
        if files.is_empty() {
            tokio::time::sleep(others_until.since(self.now())).await;
        }
        let (over, mut ended) = mpsc::unbounded_channel();
        self.drop_each(droppings.into_iter().map(|dropping| self.begin(dropping, Some(over.clone()))).collect());
        drop(over);
        let all_ended = async {
            let mut outcome = Ok(());
            while let Some(dropped) = ended.recv().await {
                outcome = outcome.and(dropped);
            }
            outcome
        };
        // The pages know of dropping that goes on for longer.
        tokio::time::timeout(LEASE_TTL, all_ended).await.unwrap_or(Ok(()))
    }

    /// Has the kernel drop pages of files when no answer about them is on its way: for programs that have mapped them, as others ask first.
    async fn drop_late(self: Arc<Self>, mut files: Vec<FileId>) {
        while !files.is_empty() {
            tokio::time::sleep(ANSWER_TAKEN_IN).await;
            let mut droppings = vec![];
            {
                let Known { pages, asked, .. } = &mut *self.known();
                files.retain(|file| match pages.drop_late(self.now(), *file, asked.contains_key(file)) {
                    Late::Wait => true,
                    Late::Over => false,
                    Late::Drop(dropping) => {
                        droppings.push(self.begin(dropping, None));
                        false
                    }
                });
            }
            self.drop_each(droppings);
        }
    }

    fn begin(self: &Arc<Self>, dropping: Dropping, over: Option<mpsc::UnboundedSender<Result<(), Errno>>>) -> UnderWay {
        UnderWay { cache: Arc::clone(self), dropping, dropped: Err(Errno::EAGAIN), over }
    }

    /// Has the kernel drop pages, which waits for what is being read, so this goes on by itself.
    fn drop_pages(&self, under_way: UnderWay, last: Option<(u64, u8)>) {
        let node = node_of(under_way.dropping.file);
        match self.notifier.get() {
            Some(notifier) => notifier.renew_pages_then(node, last, move |renewed| under_way.end(renewed)),
            None => under_way.end(Ok(())),
        }
    }

    /// Several are dropped one after the other: after a takeover, say, there may be thousands.
    fn drop_each(self: &Arc<Self>, mut all: Vec<UnderWay>) {
        let (Some(under_way), Some(notifier)) = (all.pop(), self.notifier.get()) else { return };
        let cache = Arc::clone(self);
        notifier.renew_pages_then(node_of(under_way.dropping.file), None, move |renewed| {
            under_way.end(renewed);
            cache.drop_each(all);
        });
    }

    /// A dropping has ended: who waits for it is answered.
    fn end(&self, dropping: Dropping, dropped: Result<(), Errno>) {
        let answers = {
            let mut known = self.known();
            match dropped {
                Ok(()) => known.pages.have_dropped(dropping),
                Err(_) => known.pages.have_not_dropped(dropping),
            }
            let answers = known.waiting.remove(&dropping).unwrap_or_default();
            known.waits -= answers.len();
            answers
        };
        for (attributes, reply) in answers {
            match dropped {
                Ok(()) => reply.attributes(&attributes, Duration::ZERO),
                // To a program that reads, EAGAIN would look like a pipe that has nothing yet.
                Err(_) => reply.error(Errno::EIO),
            }
        }
    }

    fn now(&self) -> Time {
        Time::default().after(self.began.elapsed())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// An answer waits until pages have been dropped.
    fn wait(&mut self, dropping: Dropping, told: &ToTell, reply: Reply) {
        if self.waits >= ANSWERS_MAX {
            tracing::warn!(
                "programs were refused a file's attributes: its pages are not dropped while one of them is being read"
            );
            return reply.error(Errno::EIO);
        }
        self.waits += 1;
        self.waiting.entry(dropping).or_default().push((told.attributes, reply));
    }
}

impl UnderWay {
    fn end(mut self, dropped: io::Result<()>) {
        self.dropped = dropped.map_err(|error| {
            tracing::warn!(%error, "the kernel was not told to drop pages: programs that read them get EIO");
            Errno::EAGAIN
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.cache.end(self.dropping, self.dropped);
        if let Some(over) = &self.over {
            // It may wait no longer.
            let _ = over.send(self.dropped);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let asked = &mut self.cache.known().asked;
        if let Some(count) = asked.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                asked.remove(&self.file);
            }
        }
    }
}
