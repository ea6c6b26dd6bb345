//! Files whose bytes come once and in order: compressed ones, and pipes. Their blocks are those of the file that the bytes would be.
//!
//! One thread at a time takes the next block; the others work on theirs meanwhile. A block comes with the end of its last row, which the
//! next one begins with again, so what is kept beside the blocks of the threads is one row.

use std::fs::File;
use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, anyhow};
use forebay_query::limits::{BLOCK_BYTES, RECORD_BYTES_MAX};
use forebay_query::{Block, RowEnds};

use crate::contents::Contents;
use crate::files::blocks::{BlockOptions, RowsOf, TAIL_BYTES, Turns, in_threads};
use crate::files::converted::Converted;
use crate::packing::{Packing, Unpacker};

/// Bytes of a file, or of a pipe, that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Bytes that are decompressed at once: a pass that is given up waits for no more.
const PIECE_BYTES: usize = 512 << 10;

/// The place from which bytes come.
pub enum Origin<'a> {
    /// A file in one generation.
    File(&'a dyn Contents),
    /// A pipe.
    Pipe(File),
    /// A file that another program reads.
    Converted(Converted),
}

/// Bytes as they lie there, compressed or not.
struct Raw<'a> {
    origin: Origin<'a>,
    /// Those that were read last.
    buffer: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
    /// Read so far.
    at: u64,
    /// Why no more can be read.
    failed: Option<anyhow::Error>,
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Raw<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.buffer.len() {
            self.taken = 0;
            self.buffer.resize(READ_BYTES, 0);
            let read = read_some(&mut self.origin, &mut self.buffer, self.at);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            // The bytes of rows are none of a file that was converted.
            let is_own = !matches!(self.origin, Origin::Converted(_));
            self.at += if is_own { self.buffer.len() as u64 } else { 0 };
            if let Err(error) = read {
                self.failed.get_or_insert(error);
                return Err(ErrorKind::Other.into());
            }
        }
        Ok(&self.buffer[self.taken..])
    }

    fn consume(&mut self, len: usize) {
        self.taken += len;
    }
}

fn read_some(origin: &mut Origin<'_>, buffer: &mut [u8], at: u64) -> anyhow::Result<usize> {
    match origin {
        Origin::File(file) => {
            let len = (file.bytes() - at).min(buffer.len() as u64) as usize;
            file.read(&mut buffer[..len], at)?;
            Ok(len)
        }
        Origin::Converted(rows) => rows.read(buffer),
        Origin::Pipe(pipe) => loop {
            match pipe.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.context("it cannot be read"),
            }
        },
    }
}

/// Bytes in order, decompressed.
pub struct InOrder<'a> {
    /// For messages.
    name: String,
    packing: Option<Packing>,
    bytes: Unpacker<Raw<'a>>,
    /// Those of no block yet.
    pending: Vec<u8>,
    /// No more come behind them.
    is_ended: bool,
    /// Those before them.
    offset: u64,
    /// The last one before them.
    last: Option<u8>,
    /// Whether they begin within quotes.
    is_quoted: bool,
    /// Bytes of the origin that were counted as done.
    counted: u64,
}

/// A block that was taken, but for its bytes.
struct Taken {
    index: u64,
    block: Block<'static>,
    /// Bytes of the origin.
    read: u64,
}

impl<'a> InOrder<'a> {
    /// The bytes of a file that is compressed so.
    pub fn new(name: String, origin: Origin<'a>, packing: Option<Packing>) -> Self {
        let raw = Raw { origin, buffer: vec![], taken: 0, at: 0, failed: None };
        Self::of(name, raw, packing)
    }

    /// Those of a pipe, which may be compressed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_pipe(name: String, pipe: File) -> anyhow::Result<Self> {
        let mut raw = Raw { origin: Origin::Pipe(pipe), buffer: vec![], taken: 0, at: 0, failed: None };
        let mut beginning = vec![];
        while beginning.len() < crate::packing::MAGIC_BYTES {
            let mut more = vec![0; READ_BYTES];
            let len = read_some(&mut raw.origin, &mut more, 0).with_context(|| name.clone())?;
            if len == 0 {
                break;
            }
            beginning.extend_from_slice(&more[..len]);
        }
        let packing = Packing::of(&beginning);
        (raw.at, raw.buffer) = (beginning.len() as u64, beginning);
        Ok(Self::of(name, raw, packing))
    }

    fn of(name: String, raw: Raw<'a>, packing: Option<Packing>) -> Self {
        let bytes = Unpacker::new(raw, packing);
        let (pending, is_ended, offset, last, is_quoted, counted) = (vec![], false, 0, None, false, 0);
        Self { name, packing, bytes, pending, is_ended, offset, last, is_quoted, counted }
    }

    /// Columns of a converted file that are left out, each with a reason.
    pub fn left_out(&mut self) -> Vec<String> {
        match self.bytes.packed().map(|raw| &raw.origin) {
            Some(Origin::Converted(rows)) => rows.left_out(),
            _ => vec![],
        }
    }

    /// How they are compressed.
    pub fn packing(&self) -> Option<Packing> {
        self.packing
    }

    /// The first `len` of those that are left, or all, and whether they are all. They stay.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub fn beginning(&mut self, len: usize) -> anyhow::Result<(&[u8], bool)> {
        // One more tells whether there are more.
        self.fill(len + 1, &|| Ok(()))?;
        Ok((&self.pending[..self.pending.len().min(len)], self.pending.len() <= len))
    }

    /// Has so many of them pending, or all.
    fn fill(&mut self, len: usize, is_wanted: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        while self.pending.len() < len && !self.is_ended {
            is_wanted()?;
            let from = self.pending.len();
            self.pending.resize((from + PIECE_BYTES).min(len), 0);
            let read = self.bytes.read(&mut self.pending[from..]);
            self.pending.truncate(from + *read.as_ref().unwrap_or(&0));
            self.is_ended = matches!(read, Ok(0));
            if let Err(error) = read {
                return Err(self.failed(error));
            }
        }
        Ok(())
    }

    /// Why they cannot be had.
    fn failed(&mut self, error: io::Error) -> anyhow::Error {
        let packed = self.bytes.packed();
        if let Some(cause) = packed.and_then(|raw| raw.failed.take()) {
            return cause;
        }
        let (name, at) = (&self.name, self.offset + self.pending.len() as u64);
        let packing = self.packing.map_or("", Packing::name);
        match error.kind() {
            ErrorKind::UnexpectedEof => {
                anyhow!("{name} is cut short: its {packing} data end within a piece, behind {at} decompressed bytes")
            }
            ErrorKind::Unsupported => anyhow!("{name}: {error}"),
            _ => anyhow!("{name} is damaged: its {packing} data cannot be decompressed behind {at} bytes: {error}"),
        }
    }

    /// Takes the next block; its bytes are left in `buffer`. None at the end.
    fn take(&mut self, options: &BlockOptions<'_>, buffer: &mut Vec<u8>) -> anyhow::Result<Option<Taken>> {
        let is_wanted = || options.ensure_wanted();
        let block_bytes = BLOCK_BYTES as usize;
        self.fill(block_bytes + 1, &is_wanted)?;
        let len = self.pending.len().min(block_bytes);
        if len == 0 {
            return Ok(None);
        }
        let (is_quoted, follows_newline) = (self.is_quoted, self.last.is_none_or(|last| last == b'\n'));
        let (mut end, mut is_end) = (len, self.pending.len() == len);
        if let RowsOf::Text(ends) = options.rows {
            let own = &self.pending[..len];
            self.is_quoted ^= ends.turns_quoting(own);
            let begins_row = follows_newline && !is_quoted || self.last.is_none();
            // Within a long row there is nothing to complete.
            if begins_row || ends.end(own, is_quoted).is_some() {
                (end, is_end) = self.row_end(len, ends, &is_wanted)?;
            }
        }
        let block = Block { bytes: &[], len, offset: self.offset, is_quoted, follows_newline, is_end };
        std::mem::swap(&mut self.pending, buffer);
        self.pending.clear();
        self.pending.extend_from_slice(&buffer[len..]);
        self.last = Some(buffer[len - 1]);
        buffer.truncate(end);
        let index = self.offset / BLOCK_BYTES;
        self.offset += len as u64;
        let at = self.bytes.packed().map_or(self.counted, |raw| raw.at);
        let read = at - std::mem::replace(&mut self.counted, at);
        Ok(Some(Taken { index, block, read }))
    }

    /// Where the row ends that is open behind the first `len` that are pending, and whether that is the end of all. As of a file that is read
    /// by place (`blocks`): the tails are the same.
    fn row_end(
        &mut self,
        len: usize,
        ends: RowEnds,
        is_wanted: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<(usize, bool)> {
        let mut is_quoted = self.is_quoted;
        let longest = len + RECORD_BYTES_MAX as usize + 1;
        let mut at = len;
        let is_closed = !is_quoted && self.pending[len - 1] == b'\n';
        while !is_closed && at < longest {
            self.fill(at + TAIL_BYTES + 1, is_wanted)?;
            let tail = &self.pending[at..self.pending.len().min(at + TAIL_BYTES)];
            if tail.is_empty() {
                break;
            }
            if let Some(end) = ends.end(tail, is_quoted) {
                at += end;
                break;
            }
            is_quoted ^= ends.turns_quoting(tail);
            at += tail.len();
        }
        Ok((at, at == self.pending.len() && self.is_ended))
    }
}

/// Does `work` for each block of bytes that come in order, as `blocks::each_block` does for those of a file: how many there are.
pub fn each_block_in_order<W, T>(
    bytes: InOrder<'_>,
    options: BlockOptions<'_>,
    begin: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, Block<'_>) -> T + Sync,
    deliver: impl FnMut(u64, T) -> anyhow::Result<()> + Send,
) -> anyhow::Result<u64> {
    let turns = Turns::new(options.begins_quoted);
    let bytes = Mutex::new(InOrder { is_quoted: options.begins_quoted, ..bytes });
    let deliver = Mutex::new(deliver);
    in_threads(options.threads, &turns, || {
        let (mut worker, mut buffer) = (begin(), Vec::new());
        loop {
            // A thread that fails says so before another takes a block.
            if turns.has_failed() {
                return Ok(());
            }
            let taken = bytes.lock().unwrap_or_else(PoisonError::into_inner).take(&options, &mut buffer)?;
            let Some(Taken { index, block, read }) = taken else { return Ok(()) };
            let result = work(&mut worker, Block { bytes: &buffer, ..block });
            if options.in_order && !turns.wait_for(index) {
                return Ok(());
            }
            (deliver.lock().unwrap_or_else(PoisonError::into_inner))(index, result)?;
            turns.delivered();
            options.done_bytes.fetch_add(read, Ordering::Relaxed);
        }
    })?;
    let bytes = bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(bytes.offset.div_ceil(BLOCK_BYTES))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use forebay_query::{Collected, Kept, OnText, Reading, State};

    use super::*;
    use crate::files::{FileSource, NormalisedColumn, PassOptions, WantedRows, collect, write_normalised};
    use crate::packing::tests::{gzip, skippable, zstd};

    const COLLECTED: Collected =
        Collected { bytes: true, columns: true, sums: true, gramian: true, covariance: true, described: false };

    /// A generator of numbers (SplitMix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ (mixed >> 27)) % end as u64) as usize
        }
    }

    /// A table of so many bytes, in whose quotes are newlines, and of which some rows are longer than a tail, and one than a block.
    fn table(random: &mut Random, bytes: usize) -> Vec<u8> {
        let mut text = b"x,note,y\n".to_vec();
        let longest = BLOCK_BYTES as usize * 5 / 4;
        let mut long_left = usize::from(random.below(2) == 0);
        while text.len() < bytes {
            let len = match random.below(4000) {
                0 => 200_000,
                1 if std::mem::take(&mut long_left) > 0 => longest,
                _ => random.below(300),
            };
            let note: String = "a \"\"b\"\",\n".chars().cycle().take(len / 9 * 9).collect();
            let (x, y) = (random.below(1_000_000), random.below(1 << 40) as f64 / 1024.0);
            let row =
                if random.below(3) == 0 { format!("{x},{len},{y}\r\n") } else { format!("{x},\"{note}\",{y:?}\n") };
            text.extend_from_slice(row.as_bytes());
        }
        text
    }

    /// A text in random pieces, each compressed.
    fn packed(text: &[u8], random: &mut Random, packing: Packing) -> Vec<u8> {
        let pack = if packing == Packing::Gzip { gzip } else { zstd };
        let (mut at, mut packed) = (0, vec![]);
        while at < text.len() {
            let len = (1 + random.below(3 << 20)).min(text.len() - at);
            packed.extend(pack(&text[at..at + len]));
            if packing == Packing::Zstd && random.below(2) == 0 {
                packed.extend(skippable(&[7; 300]));
            }
            at += len;
        }
        packed
    }

    /// The state of a file, and the lines of its first column.
    fn answers(path: &Path, threads: usize, output: Option<&Path>) -> (State, Vec<u8>) {
        let source = FileSource::open(path).unwrap();
        let schema = source.schema(&Reading::default()).unwrap();
        let (done_bytes, is_given_up) = (AtomicU64::new(0), AtomicBool::new(false));
        let options = PassOptions { collected: COLLECTED, threads, done_bytes: &done_bytes, is_given_up: &is_given_up };
        let table = WantedRows { schema: &schema, kept: Kept::summed(&[0, 2], OnText::Bad) };
        let state = collect(&source, Some(table), options).unwrap();
        if !source.is_pipe() {
            assert_eq!(done_bytes.load(Ordering::Relaxed), source.bytes(), "progress ends at 100 %");
        }
        let column = NormalisedColumn { schema: &schema, columns: &[0, 2], mean: 1.5, deviation: 3.0 };
        let lines = output.map(|output| {
            write_normalised(&source, &column, output, options).unwrap();
            fs::read(output).unwrap()
        });
        (state, lines.unwrap_or_default())
    }

    /// The state of what comes out of a pipe, in pieces of random lengths.
    fn piped(bytes: &[u8], random: &mut Random, threads: usize) -> State {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", from.as_raw_fd()));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut to, mut at) = (File::from(to), 0);
                while at < bytes.len() {
                    let len = (1 + random.below(300_000)).min(bytes.len() - at);
                    to.write_all(&bytes[at..at + len]).unwrap();
                    at += len;
                }
            });
            answers(&path, threads, None).0
        })
    }

    #[test]
    fn packed_and_piped_tables_have_the_states_of_plain_ones_bit_for_bit() {
        let directory = tempfile::tempdir().unwrap();
        let [plain, file, output] = ["t.csv", "packed", "out.csv"].map(|name| directory.path().join(name));
        let block = BLOCK_BYTES as usize;
        for (seed, bytes) in [30, 70_000, block + 10, 2 * block, 3 * block + 77].into_iter().enumerate() {
            let mut random = Random(seed as u64);
            let mut text = table(&mut random, bytes);
            if seed % 2 == 1 {
                // Ends with a block, if it has one, and perhaps within a row.
                text.truncate(text.len() / block.min(text.len()) * block.min(text.len()));
            }
            fs::write(&plain, &text).unwrap();
            let expected = answers(&plain, 2, Some(&output));
            for packing in [Packing::Gzip, Packing::Zstd] {
                let bytes = packed(&text, &mut random, packing);
                fs::write(&file, &bytes).unwrap();
                for threads in [1, 3] {
                    let found = answers(&file, threads, Some(&output));
                    assert!(found == expected, "seed {seed}, {threads} threads");
                }
                assert!(piped(&bytes, &mut random, 2) == expected.0, "seed {seed}");
            }
            assert!(piped(&text, &mut random, 2) == expected.0, "seed {seed}, not compressed");
        }
    }

    #[test]
    fn errors_name_the_file_and_the_place_and_a_pipe_comes_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv.gz");
        let mut random = Random(1);
        let whole = gzip(&table(&mut random, 3 << 20));
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        let source = FileSource::open(&path).unwrap();
        let (done_bytes, is_given_up) = (AtomicU64::new(0), AtomicBool::new(false));
        let options =
            PassOptions { collected: COLLECTED, threads: 2, done_bytes: &done_bytes, is_given_up: &is_given_up };
        let error = collect(&source, None, options).unwrap_err().to_string();
        assert!(error.contains("t.csv.gz is cut short") && error.contains("decompressed bytes"), "{error}");
        fs::write(&path, &whole).unwrap();
        let error = collect(&source, None, options).unwrap_err().to_string();
        assert!(error.contains("changed while it was read"), "{error}");
        let (from, to) = rustix::pipe::pipe().unwrap();
        File::from(to).write_all(b"a,b\n1,2\n").unwrap();
        let pipe = FileSource::open(Path::new(&format!("/proc/self/fd/{}", from.as_raw_fd()))).unwrap();
        assert_eq!(collect(&pipe, None, options).unwrap().lines, 2);
        let again = collect(&pipe, None, options).unwrap_err().to_string();
        assert!(again.contains("comes once") && again.contains("write it to a file first"), "{again}");
    }
}
