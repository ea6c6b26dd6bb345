//! Bytes of files in a node's log: whose they are, by kinds of records.

use forebay_types::{FileId, LogPosition, NodeRank};

/// The bytes of a data record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordData {
    /// Written to a file.
    Written {
        /// The file.
        file: FileId,
        /// Where in the file they lie, bytes.
        offset: u64,
        /// Whether the node's partner is to copy them.
        is_copied: bool,
    },
    /// Written to a file's end, wherever that is when they are committed (`O_APPEND`). A daemon's death before that ends them: the request
    /// that has written them comes again.
    Appended {
        /// The file.
        file: FileId,
        /// Whether the node's partner is to copy them.
        is_copied: bool,
    },
    /// A copy of a record of another node's log.
    Copy {
        /// Whose.
        of: NodeRank,
        /// Where it lies in that log.
        from: LogPosition,
    },
}

/// A data record's part of its head.
pub(crate) struct Fields {
    pub kind: u8,
    pub is_copied: bool,
    /// A node.
    pub creator: u32,
    /// A file's, or a segment.
    pub serial: u64,
    pub offset: u64,
}

const WRITTEN: u8 = 2;
const APPENDED: u8 = 6;
const COPY: u8 = 7;

impl RecordData {
    /// Written to a file, and not copied.
    #[must_use]
    pub fn written(file: FileId, offset: u64) -> Self {
        Self::Written { file, offset, is_copied: false }
    }

    pub(crate) fn fields(self) -> Fields {
        let of_file = |kind, file: FileId, offset, is_copied| Fields {
            kind,
            is_copied,
            creator: file.creator.0,
            serial: file.serial,
            offset,
        };
        match self {
            Self::Written { file, offset, is_copied } => of_file(WRITTEN, file, offset, is_copied),
            Self::Appended { file, is_copied } => of_file(APPENDED, file, 0, is_copied),
            Self::Copy { of, from } => {
                Fields { kind: COPY, is_copied: false, creator: of.0, serial: from.segment, offset: from.offset.into() }
            }
        }
    }

    /// The data of a record of such a kind, if it is one of data.
    ///
    /// # Errors
    /// The field that makes no sense.
    pub(crate) fn of(fields: &Fields) -> Result<Option<Self>, &'static str> {
        let Fields { is_copied, offset, .. } = *fields;
        let (of, serial) = (NodeRank(fields.creator), fields.serial);
        let file = FileId { creator: of, serial };
        match fields.kind {
            WRITTEN => Ok(Some(Self::Written { file, offset, is_copied })),
            APPENDED if offset == 0 => Ok(Some(Self::Appended { file, is_copied })),
            APPENDED => Err("it is appended and has an offset"),
            COPY if is_copied => Err("it is a copy, and is to be copied"),
            COPY => match u32::try_from(offset) {
                Ok(offset) => Ok(Some(Self::Copy { of, from: LogPosition { segment: serial, offset } })),
                Err(_) => Err("it is a copy of a record behind any segment's end"),
            },
            _ => Ok(None),
        }
    }
}
