//! Files that are no text tables, by how they begin; and what to do with them.

use crate::error::QueryError;

/// A beginning, what the file is, and what to do.
struct Kind {
    begins: &'static [u8],
    name: &'static str,
    remedy: &'static str,
}

const ONCE: &str = "decompress it once, and query that";
const UNPACK: &str = "decompress it first";
const UTF_8: &str = "convert it first: iconv -f UTF-16 -t UTF-8 FILE > OUT";

const KINDS: [Kind; 17] = [
    // Those who read files decompress these: they come here if they are compressed twice.
    Kind { begins: b"\x1f\x8b", name: "compressed twice, by gzip within", remedy: ONCE },
    Kind { begins: b"\x28\xb5\x2f\xfd", name: "compressed twice, by zstd within", remedy: ONCE },
    Kind { begins: b"BZh", name: "compressed by bzip2", remedy: "decompress it first: bzip2 -dc FILE > OUT" },
    Kind { begins: b"\xfd7zXZ\0", name: "compressed by xz", remedy: "decompress it first: xz -dc FILE > OUT" },
    Kind { begins: b"\x04\x22\x4d\x18", name: "compressed by lz4", remedy: "decompress it first: lz4 -dc FILE > OUT" },
    Kind {
        begins: b"PK\x03\x04",
        name: "a ZIP archive, as .xlsx, .ods and .npz files are",
        remedy: "unpack it, or save its table as CSV first",
    },
    Kind { begins: b"7z\xbc\xaf\x27\x1c", name: "a 7z archive", remedy: UNPACK },
    Kind { begins: b"\xd0\xcf\x11\xe0", name: "an old Excel file", remedy: "save its table as CSV first" },
    Kind { begins: b"PAR1", name: "Parquet", remedy: "write it to a file first, decompressed" },
    Kind { begins: b"ARROW1", name: "an Arrow file", remedy: "write it as Parquet or CSV first" },
    Kind { begins: b"ORC", name: "ORC", remedy: "write it as Parquet or CSV first" },
    Kind { begins: b"Obj\x01", name: "Avro", remedy: "write it as Parquet or CSV first" },
    Kind { begins: b"SQLite format 3\0", name: "an SQLite database", remedy: "write a table of it as CSV first" },
    Kind { begins: b"\xff\xfe", name: "text in UTF-16", remedy: UTF_8 },
    Kind { begins: b"\xfe\xff", name: "text in UTF-16", remedy: UTF_8 },
    Kind { begins: b"%PDF-", name: "a PDF document", remedy: "save its table as CSV first" },
    Kind { begins: b"\x7fELF", name: "a program", remedy: "name a table" },
];

/// Markup that is told by its first letter that is no blank.
const MARKUP: [(&str, &str, &str); 6] = [
    ("{\"", "JSON", "write it as CSV first"),
    ("[{", "JSON", "write it as CSV first"),
    ("<!doctype html", "a web page", "download the table itself; the server may have sent an error"),
    ("<html", "a web page", "download the table itself; the server may have sent an error"),
    ("<?xml", "XML", "write it as CSV first"),
    ("version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
];

/// Refuses a file that is known to be something else.
///
/// # Errors
/// It is.
pub fn refuse(beginning: &[u8]) -> Result<(), QueryError> {
    if let Some(kind) = KINDS.iter().find(|kind| beginning.starts_with(kind.begins)) {
        // Words begin in the same way: "ORCID,name" is a table.
        let is_text =
            kind.begins.iter().all(u8::is_ascii_graphic) && beginning.iter().take(512).all(|byte| is_of_text(*byte));
        if !is_text || kind.begins == b"%PDF-" {
            return Err(QueryError::OtherFormat { name: kind.name, remedy: kind.remedy });
        }
    }
    let markup = |begins: &str| {
        let text = beginning.trim_ascii_start();
        text.get(..begins.len()).is_some_and(|text| text.eq_ignore_ascii_case(begins.as_bytes()))
    };
    match MARKUP.iter().find(|(begins, ..)| markup(begins)) {
        Some((_, name, remedy)) => Err(QueryError::OtherFormat { name, remedy }),
        None => Ok(()),
    }
}

fn is_of_text(byte: u8) -> bool {
    byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(beginning: &[u8]) -> Option<&'static str> {
        match refuse(beginning) {
            Err(QueryError::OtherFormat { name, .. }) => Some(name),
            _ => None,
        }
    }

    #[test]
    fn formats_are_told_by_their_beginning() {
        assert_eq!(name(b"\x1f\x8b\x08\0"), Some("compressed twice, by gzip within"));
        assert_eq!(name(b"PAR1\x15\x04\x15"), Some("Parquet"));
        assert_eq!(name(b"\xff\xfea\0,\0"), Some("text in UTF-16"));
        assert_eq!(name(b"\n <!DOCTYPE HTML>\n<p>"), Some("a web page"));
        assert_eq!(name(b"{\"a\": 1}\n"), Some("JSON"));
        assert_eq!(name(b"version https://git-lfs.github.com/spec/v1\n"), Some("a pointer of Git LFS"));
        for table in
            [&b"a,b\n1,2\n"[..], b"ORCID,name\n1,x\n", b"BZhang,5\n", b"PAR1,PAR2\n1,2\n", b"", b"%PDF", b"Obj"]
        {
            assert_eq!(name(table), None);
        }
    }
}
