//! The absolute paths that a program or a library names in its ELF headers: its interpreter, where it searches for
//! libraries, and libraries that it wants by path (the System V ABI's chapters on program loading and dynamic linking).
//!
//! The file may be anybody's: every offset and length is checked against a limit, and fields that make no sense are
//! skipped. A false field can only make the list shorter or wrong, never this program slow or large.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Program headers that are looked at; real files have a dozen.
const HEADERS_MAX: u16 = 256;

/// Entries of the dynamic section that are looked at.
const DYNAMIC_MAX: u64 = 4096;

/// Libraries, and the length of any text, bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Texts of one file.
const TEXTS_MAX: usize = 1024;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// The use of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The program that loads it.
    Interpreter,
    /// A library.
    Library,
    /// Where libraries are searched for, old style.
    Rpath,
    /// The same, new style.
    Runpath,
}

/// The paths in `file`, in the order in which they stand there; empty for what is no ELF file. Parts of a search path come
/// one by one; not all are absolute.
///
/// # Errors
/// The error of reading the file.
pub fn paths(file: &File) -> io::Result<Vec<(Use, Vec<u8>)>> {
    match Elf::open(file) {
        Ok(Some(elf)) => elf.paths().or_else(cut_short),
        Ok(None) => Ok(Vec::new()),
        Err(error) => cut_short(error),
    }
}

/// A file that ends before its headers do is none of this kind.
fn cut_short<T: Default>(error: io::Error) -> io::Result<T> {
    // The second for an offset that no file can have.
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => Ok(T::default()),
        _ => Err(error),
    }
}

struct Elf<'a> {
    file: &'a File,
    is_64_bit: bool,
    is_little_endian: bool,
    headers: Vec<Header>,
}

#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    offset: u64,
    address: u64,
    size_bytes: u64,
}

impl<'a> Elf<'a> {
    fn open(file: &'a File) -> io::Result<Option<Self>> {
        let mut ident = [0; 16];
        file.read_exact_at(&mut ident, 0)?;
        if !ident.starts_with(b"\x7fELF") || !matches!(ident[4], 1 | 2) || !matches!(ident[5], 1 | 2) {
            return Ok(None);
        }
        let mut elf = Self { file, is_64_bit: ident[4] == 2, is_little_endian: ident[5] == 1, headers: Vec::new() };
        let (table, entry_bytes, count) = if elf.is_64_bit {
            (elf.number(32, 8)?, elf.number(54, 2)?, elf.number(56, 2)?)
        } else {
            (elf.number(28, 4)?, elf.number(42, 2)?, elf.number(44, 2)?)
        };
        for index in 0..count.min(HEADERS_MAX.into()) {
            let Some(at) = table.checked_add(index * entry_bytes) else { break };
            let header = elf.header(at)?;
            elf.headers.push(header);
        }
        Ok(Some(elf))
    }

    fn header(&self, at: u64) -> io::Result<Header> {
        let field = |offset: u64, bytes: usize| self.number(at.saturating_add(offset), bytes);
        let kind = field(0, 4)? as u32;
        let (offset, address, size_bytes) = if self.is_64_bit {
            (field(8, 8)?, field(16, 8)?, field(32, 8)?)
        } else {
            (field(4, 4)?, field(8, 4)?, field(16, 4)?)
        };
        Ok(Header { kind, offset, address, size_bytes })
    }

    fn number(&self, at: u64, bytes: usize) -> io::Result<u64> {
        let mut read = [0; 8];
        self.file.read_exact_at(&mut read[..bytes], at)?;
        if !self.is_little_endian {
            read[..bytes].reverse();
        }
        Ok(u64::from_le_bytes(read))
    }

    fn paths(&self) -> io::Result<Vec<(Use, Vec<u8>)>> {
        let mut paths = Vec::new();
        let of = |kind| self.headers.iter().find(move |header| header.kind == kind);
        if let Some(header) = of(PT_INTERP) {
            paths.push((Use::Interpreter, self.text(header.offset)?));
        }
        let Some(dynamic) = of(PT_DYNAMIC) else { return Ok(paths) };
        let entries = self.dynamic(dynamic)?;
        let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).and_then(|(_, address)| self.place(*address));
        let Some(strings) = strings else { return Ok(paths) };
        for (tag, value) in entries.iter().take(TEXTS_MAX) {
            let usage = match *tag {
                DT_NEEDED => Use::Library,
                DT_RPATH => Use::Rpath,
                DT_RUNPATH => Use::Runpath,
                _ => continue,
            };
            let text = self.text(strings.saturating_add(*value))?;
            let is_search = matches!(usage, Use::Rpath | Use::Runpath);
            let parts = text.split(|byte| is_search && *byte == b':');
            let room = TEXTS_MAX.saturating_sub(paths.len());
            paths.extend(parts.filter(|part| !part.is_empty()).take(room).map(|part| (usage, part.to_vec())));
        }
        Ok(paths)
    }

    /// The entries of the dynamic section: tag and value.
    fn dynamic(&self, header: &Header) -> io::Result<Vec<(u64, u64)>> {
        let word = if self.is_64_bit { 8 } else { 4 };
        let count = (header.size_bytes / (2 * word)).min(DYNAMIC_MAX);
        let mut entries = Vec::new();
        for index in 0..count {
            let at = header.offset.saturating_add(index * 2 * word);
            let entry = (self.number(at, word as usize)?, self.number(at.saturating_add(word), word as usize)?);
            if entry.0 == DT_NULL {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Where in the file an address is.
    fn place(&self, address: u64) -> Option<u64> {
        let holds = |header: &&Header| {
            header.kind == PT_LOAD && address.checked_sub(header.address).is_some_and(|into| into < header.size_bytes)
        };
        let header = self.headers.iter().find(holds)?;
        header.offset.checked_add(address - header.address)
    }

    /// The text at `at`, up to its NUL byte; empty where it has none within the limit.
    fn text(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let read = self.file.read_at(&mut bytes, at)?;
        let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(0);
        bytes.truncate(end);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// A file of one load segment, an interpreter and a dynamic section, as a linker would lay it out.
    fn program(is_64_bit: bool, is_little_endian: bool) -> Vec<u8> {
        let word = if is_64_bit { 8 } else { 4 };
        let number = |value: u64, bytes: usize| {
            let little = value.to_le_bytes();
            if is_little_endian { little[..bytes].to_vec() } else { little[..bytes].iter().rev().copied().collect() }
        };
        let (base, headers_at, interpreter_at, strings_at, dynamic_at) = (0x40_0000, 0x40, 0x200, 0x280, 0x300);
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, &[0x7f, b'E', b'L', b'F', if is_64_bit { 2 } else { 1 }, if is_little_endian { 1 } else { 2 }]);
        let (table, sizes, entry_bytes) = if is_64_bit { (32, 54, 56) } else { (28, 42, 32) };
        put(table, &number(headers_at, word));
        put(sizes, &number(entry_bytes, 2));
        put(sizes + 2, &number(3, 2));
        let headers =
            [(PT_INTERP, interpreter_at, 0x40), (PT_LOAD, 0, 0x400), (PT_DYNAMIC, dynamic_at, 10 * word as u64)];
        for (index, (kind, offset, size)) in headers.into_iter().enumerate() {
            let at = headers_at as usize + index * entry_bytes as usize;
            let places = if is_64_bit { [8, 16, 32] } else { [4, 8, 16] };
            put(at, &number(kind.into(), 4));
            for (place, value) in places.into_iter().zip([offset, base + offset, size]) {
                put(at + place, &number(value, word));
            }
        }
        put(interpreter_at as usize, b"/soft/ld.so\0");
        put(strings_at as usize, b"\0libm.so\0/soft/lib:$ORIGIN/../lib\0/old\0");
        let entries = [(DT_NEEDED, 1), (DT_RUNPATH, 9), (DT_STRTAB, base + strings_at), (DT_RPATH, 34), (DT_NULL, 0)];
        for (index, (tag, value)) in entries.into_iter().enumerate() {
            put(dynamic_at as usize + index * 2 * word, &number(tag, word));
            put(dynamic_at as usize + (index * 2 + 1) * word, &number(value, word));
        }
        bytes
    }

    #[test]
    fn paths_of_either_size_and_order() {
        for (is_64_bit, is_little_endian) in [(true, true), (true, false), (false, true), (false, false)] {
            let found = paths(&file(&program(is_64_bit, is_little_endian))).unwrap();
            let expected: [(Use, &[u8]); 5] = [
                (Use::Interpreter, b"/soft/ld.so"),
                (Use::Library, b"libm.so"),
                (Use::Runpath, b"/soft/lib"),
                (Use::Runpath, b"$ORIGIN/../lib"),
                (Use::Rpath, b"/old"),
            ];
            assert_eq!(found, expected.map(|(usage, path)| (usage, path.to_vec())));
        }
    }

    #[test]
    fn a_search_path_of_thousands_of_parts_is_cut_short() {
        let mut bytes = program(true, true);
        bytes.extend(b"a:".repeat(TEXTS_MAX + 9));
        bytes.push(0);
        // Where the text of RUNPATH begins, from the strings at 0x280: the second entry's value.
        bytes[0x318..0x320].copy_from_slice(&(0x400_u64 - 0x280).to_le_bytes());
        assert_eq!(paths(&file(&bytes)).unwrap().len(), TEXTS_MAX);
    }

    #[test]
    fn a_real_program_names_its_interpreter() {
        let own = File::open("/proc/self/exe").unwrap();
        let found = paths(&own).unwrap();
        assert!(found.iter().any(|(usage, path)| *usage == Use::Library && path.starts_with(b"lib")), "{found:?}");
    }

    #[test]
    fn invalid_entries_are_passed_over() {
        let whole = program(true, true);
        for len in 0..whole.len() {
            paths(&file(&whole[..len])).unwrap();
        }
        // Every byte wrong in turn: no answer takes long or fails.
        let spoilt = file(&whole);
        for (at, right) in (0..).zip(&whole) {
            for value in [0, 0xff, 0x7f] {
                spoilt.write_all_at(&[value], at).unwrap();
                paths(&spoilt).unwrap();
            }
            spoilt.write_all_at(&[*right], at).unwrap();
        }
        assert_eq!(paths(&file(b"#!/bin/sh\n")).unwrap(), []);
    }
}
