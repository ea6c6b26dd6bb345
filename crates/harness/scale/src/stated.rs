//! A number that the model is given, with where it comes from; and which numbers there are.
//!
//! Three kinds of source: published (the paper or document is named), measured (docs/measurements.md and the notes
//! behind it, on the test bed), and assumed. A number that was fitted to a published point says to which one; what the
//! model says of that point proves nothing then, only the others do. `Stated::source` is printed with every result.

/// A number with its unit and its source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stated {
    /// Its name.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// Of what; empty for a count.
    pub unit: &'static str,
    /// Its source.
    pub source: &'static str,
}

pub(super) const fn stated(name: &'static str, value: f64, unit: &'static str, source: &'static str) -> Stated {
    Stated { name, value, unit, source }
}

impl Stated {
    /// The same with another value.
    #[must_use]
    pub const fn but(self, value: f64, source: &'static str) -> Self {
        Self { value, source, ..self }
    }

    /// As a count.
    #[must_use]
    pub const fn count(self) -> usize {
        self.value as usize
    }
}

/// A struct of stated numbers, and `list`, which leaves none of them out.
macro_rules! stated_numbers {
    ($($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name {
            $($(#[$what])* pub $field: Stated,)*
        }

        impl $name {
            /// All of them, for the tables.
            #[must_use]
            pub fn list(&self) -> Vec<Stated> {
                vec![$(self.$field),*]
            }
        }
    )*};
}

stated_numbers! {
    /// The nodes' network: each node has one link in and one out; nodes of a group share the group's links to the others.
    NetworkParameters {
        /// One way between two nodes, beside what daemons and links take.
        latency,
        /// More of it between groups.
        latency_between_groups,
        /// Each way of a node's link.
        node_link,
        /// Nodes of a group: a switch, a rack, a dragonfly group.
        group_nodes,
        /// Each way between a group and all others.
        group_link,
    }

    /// The backing file system.
    FileSystemParameters {
        /// To a server and back.
        round_trip,
        /// Metadata requests that are worked on at once.
        metadata_at_once,
        /// How long each of them takes, the mean.
        metadata_request,
        /// By which part of the mean one may take less or more, evenly.
        metadata_spread,
        /// How long a read request keeps the same workers; 0 where others do it.
        read_request,
        /// Servers of contents.
        object_servers,
        /// The bandwidth of each of them.
        object_server,
        /// Metadata requests for a directory's listing, whatever its size.
        listing_requests,
        /// Metadata requests for each entry's attributes with a listing.
        entry_requests,
    }

    /// Costs of daemons.
    DaemonParameters {
        /// Each end of a message between nodes.
        message,
        /// Each end of a gigabyte between nodes.
        gigabyte,
        /// A message of the kernel: the daemon's part.
        kernel_daemon,
        /// A message of the kernel: the program's part, waking included.
        kernel_program,
        /// More than a step computes where the kernel has the answer by a parcel.
        kernel_filled,
        /// A message of the kernel that the walker causes: its part.
        kernel_walker,
        /// The start of a program, until it asks for its first file.
        program_start,
        /// A program's computing for each operation of a replay.
        replay_operation,
        /// Unpacking a gigabyte of parcels.
        unpack_gigabyte,
        /// Storing a gigabyte of them into the kernel's caches.
        store_gigabyte,
        /// Unpacking and storing a chunk, beside its bytes.
        fill_chunk,
        /// Making a parcel, at a node that reads for others.
        make_parcel,
        /// The daemon's part in a request to the backing file system.
        backing_request,
        /// The part of the file system's own client, and of its server where it runs on the same processors.
        client_request,
        /// Their part in a gigabyte of contents.
        client_gigabyte,
        /// Bytes of a view that the kernel reads in one message.
        kernel_read,
        /// Processors that all nodes share; 0 where each node has its own.
        shared_processors,
        /// Where nodes share processors, the launcher starts a job's daemons first: its start of the first.
        launch,
        /// The processor time of starting a daemon.
        launch_node,
    }

    /// The files that a program loads.
    Workload {
        /// Small files that are read whole.
        small_files,
        /// Their bytes in all.
        small,
        /// Directories they lie in.
        directories,
        /// Names that are looked for in vain.
        absent_names,
        /// Large files.
        large_files,
        /// Bytes that are read of them, in all.
        large,
        /// Processes of a node, each of which opens every file.
        processes,
        /// From the start of the program to its end when all files are in memory.
        computing,
        /// Bytes of the files in a compressed image, as a part of the whole.
        image_share,
    }

    /// Copper's design.
    CopperParameters {
        /// The most levels of its tree.
        levels,
        /// Requests of a node that travel up: entries, names that do not exist, files.
        questions,
        /// A request's cost at the root.
        root_question,
        /// Each end of a call between nodes.
        call,
        /// Calls that a node serves at once.
        calls_at_once,
        /// Files above this size are read from the file system by each node.
        largest,
        /// A second run: requests of the kernel that the node's own cache answers, with the program's computing.
        second_run,
    }

    /// How the model tells a job.
    ModelParameters {
        /// Programs begin so far apart.
        starts_within,
        /// Small files and directories that one of the model stands for.
        small_grain,
        /// Chunks of large files that one of the model stands for.
        large_grain,
        /// The unit in which bodies are forwarded.
        piece,
        /// A head, or a message without a body.
        head,
    }

    /// The start of a job.
    StartParameters {
        /// The launcher starts daemons by a tree: each level of it takes so long.
        level,
        /// So many children has a node of that tree.
        fan_out,
        /// A job spec without its nodes, which each daemon gets from the launcher's host.
        spec,
        /// Its part about each node.
        spec_node,
        /// Sending a gigabyte of job specs, which one process does.
        spec_send,
        /// Reading a gigabyte of it.
        spec_gigabyte,
        /// From its start until a daemon listens and its view answers.
        daemon,
        /// Taking a connection, with the proof of the key.
        handshake,
        /// A report's cost beside being a message.
        report,
    }
}

/// A machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Its network.
    pub network: NetworkParameters,
    /// Its backing file system.
    pub file_system: FileSystemParameters,
    /// Its daemons.
    pub daemon: DaemonParameters,
}

impl Machine {
    /// All that is stated of it.
    #[must_use]
    pub fn list(&self) -> Vec<Stated> {
        [self.network.list(), self.file_system.list(), self.daemon.list()].concat()
    }
}
