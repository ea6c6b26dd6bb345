//! Parameters of the scenarios: machines, workloads, Copper, the start of daemons, and the model's own grain.

use super::stated::{
    CopperParameters, DaemonParameters, FileSystemParameters, Machine, ModelParameters, NetworkParameters,
    StartParameters, Workload, stated,
};

const PAPER: &str = "Copper paper (PDSW 2024), section V";
const ASSUMED: &str = "assumed";
const OF_BENCH: &str = "measured on two nodes: forebay-bench-read --only scale-model";
const FITTED: &str = "fitted to the processor time of 4 nodes: the same";

/// Costs of daemons, measured on the test bed, on processors of their own.
const DAEMON: DaemonParameters = DaemonParameters {
    message: stated(
        "daemon, each end of a message",
        2e-6,
        "s",
        "measured: 8 us a request with --security auth, four ends",
    ),
    gigabyte: stated("daemon, each end of a GB", 0.215, "s", "measured: 0.43 CPU s a GB, both ends"),
    kernel_daemon: stated("daemon, a kernel message", 14e-6, "s", "measured: 70 ms for 4,973"),
    kernel_program: stated(
        "program, a kernel message",
        24e-6,
        "s",
        "measured: docs/measurements.md, the first replay's processor time",
    ),
    kernel_filled: stated("program, a step whose answer is prefilled", 0.0, "s", "is in the workload's computing"),
    kernel_walker: stated("walker, a kernel message", 24e-6, "s", "assumed: as a program's"),
    program_start: stated("program, its start", 0.0, "s", "is in the workload's computing"),
    replay_operation: stated("program, an operation of a replay", 0.0, "s", "is in the workload's computing"),
    unpack_gigabyte: stated("daemon, unpacking a GB", 0.25, "s", "assumed: LZ4 and its checksums on one thread"),
    store_gigabyte: stated("daemon, storing a GB into the kernel", 0.44, "s", "measured: 1.28 GB in 0.56 s"),
    fill_chunk: stated("daemon, unpacking and storing a chunk", 20e-6, "s", ASSUMED),
    make_parcel: stated("daemon, making a parcel", 0.5e-3, "s", "assumed: half of the test bed's"),
    backing_request: stated("daemon, a request to the file system", 20e-6, "s", ASSUMED),
    client_request: stated("file system's client, a request", 0.0, "s", "is in the daemon's part"),
    client_gigabyte: stated("file system's client, a GB", 0.0, "s", "an object server's rate is all"),
    kernel_read: stated(
        "kernel, a read of a view",
        131_072.0,
        "B",
        "the kernel's read-ahead where a view is mounted without root",
    ),
    shared_processors: stated("processors that nodes share", 0.0, "", "each node has its own"),
    launch: stated("launcher, until a daemon starts", 0.0, "s", "the job is up when programs begin"),
    launch_node: stated("launcher, each daemon", 0.0, "s", "the job is up when programs begin"),
};

/// Aurora, where the paper's figures were measured.
pub const AURORA: Machine = Machine {
    network: NetworkParameters {
        latency: stated("network, one way", 5e-6, "s", "assumed: TCP over Slingshot-11"),
        latency_between_groups: stated("more between groups", 1e-6, "s", ASSUMED),
        node_link: stated(
            "a node's link, each way",
            25e9,
            "B/s",
            "Slingshot-11: 200 Gbit/s; one of 8 used, as Copper does",
        ),
        group_nodes: stated("nodes of a group", 64.0, "", "10,624 nodes in 166 racks; the paper, section V"),
        group_link: stated(
            "a group's links to the others, each way",
            800e9,
            "B/s",
            "assumed: half of its nodes' links",
        ),
    },
    file_system: FileSystemParameters {
        round_trip: stated("file system, round trip", 100e-6, "s", ASSUMED),
        metadata_at_once: stated("metadata requests at once", 16.0, "", "assumed: one tree lies on one of 40 servers"),
        metadata_request: stated("a metadata request", 160e-6, "s", "fitted: Fig. 5, direct, 2,048 nodes: 180 s"),
        metadata_spread: stated("its spread", 0.0, "", "left out: docs/scale.md says what it is worth"),
        read_request: stated("a read request, of the same workers", 0.0, "s", "object servers do it"),
        object_servers: stated("object servers", 160.0, "", PAPER),
        object_server: stated("an object server", 650e9 / 160.0, "B/s", "650 GB/s in all; the paper, section V"),
        listing_requests: stated("requests of a listing", 2.0, "", "open and read"),
        entry_requests: stated("requests of an entry's attributes", 1.0, "", "assumed: Lustre asks for each"),
    },
    daemon: DAEMON,
};

/// The test bed of crates/harness/testkit/testbed/pfs-testbed.sh: all nodes, daemons and the server on two processors.
pub const TEST_BED: Machine = Machine {
    network: NetworkParameters {
        latency: stated("network, one way", 15e-6, "s", "measured: round trip 94 us at 64 B over 3 hops"),
        latency_between_groups: stated("more between groups", 0.0, "s", "one switch"),
        node_link: stated("a node's link, each way", 4e9, "B/s", "assumed: virtual Ethernet, not limited"),
        group_nodes: stated("nodes of a group", 1e6, "", "one switch"),
        group_link: stated("a group's links to the others, each way", 4e9, "B/s", "one switch"),
    },
    file_system: FileSystemParameters {
        round_trip: stated(
            "file system, round trip",
            150e-6,
            "s",
            "assumed: two user-space processes and a virtual wire",
        ),
        metadata_at_once: stated("metadata requests at once", 2.0, "", "-t 2"),
        metadata_request: stated("a metadata request", 2.1e-3, "s", "-d 2000, and the sleep's own grain"),
        metadata_spread: stated("its spread", 0.0, "", "an injected delay is always the same"),
        read_request: stated("a read request, of the same workers", 0.15e-3, "s", "assumed"),
        object_servers: stated("object servers", 1.0, "", "one brick"),
        object_server: stated("an object server", 118e6, "B/s", "1 Gbit/s less its framing"),
        listing_requests: stated("requests of a listing", 3.4, "", "measured: OPENDIR, two READDIRP and 0.4 LOOKUP"),
        entry_requests: stated("requests of an entry's attributes", 0.0, "", "READDIRP brings them"),
    },
    daemon: DaemonParameters {
        message: DAEMON.message.but(91e-6, FITTED),
        kernel_daemon: DAEMON.kernel_daemon.but(39e-6, OF_BENCH),
        kernel_program: DAEMON.kernel_program.but(52e-6, FITTED),
        backing_request: DAEMON.backing_request.but(107e-6, OF_BENCH),
        client_request: DAEMON.client_request.but(0.33e-3, OF_BENCH),
        kernel_filled: DAEMON.kernel_filled.but(6e-6, OF_BENCH),
        make_parcel: DAEMON.make_parcel.but(1e-3, OF_BENCH),
        kernel_walker: DAEMON.kernel_walker.but(29e-6, OF_BENCH),
        fill_chunk: DAEMON.fill_chunk.but(30e-6, OF_BENCH),
        launch: DAEMON.launch.but(60e-3, OF_BENCH),
        launch_node: DAEMON.launch_node.but(25e-3, OF_BENCH),
        client_gigabyte: DAEMON.client_gigabyte.but(2.0, "assumed: copied by client, server and kernel"),
        program_start: DAEMON.program_start.but(63e-3, OF_BENCH),
        replay_operation: DAEMON.replay_operation.but(7e-6, "measured: 47 ms for 6,802 on a local file system"),
        kernel_read: DAEMON.kernel_read.but(1_048_576.0, "mounted by root, which may raise it"),
        shared_processors: DAEMON.shared_processors.but(2.0, "the machine has two"),
        ..DAEMON
    },
};

/// The machine of `benches/bulk.py weights`, on which each node has a processor of its own: slow links, and a slower file system than they are
/// together.
pub const WEIGHTS_BED: Machine = Machine {
    network: NetworkParameters { node_link: TEST_BED.network.node_link.but(100e6, "chosen"), ..TEST_BED.network },
    file_system: FileSystemParameters {
        metadata_at_once: TEST_BED.file_system.metadata_at_once.but(16.0, "chosen"),
        read_request: TEST_BED.file_system.read_request.but(2e-3, "chosen: a delay at the server"),
        object_server: TEST_BED.file_system.object_server.but(125e6, "chosen: 1 Gbit/s"),
        ..TEST_BED.file_system
    },
    daemon: DaemonParameters {
        kernel_read: DAEMON.kernel_read.but(1_048_576.0, "mounted by root, which may raise it"),
        ..DAEMON
    },
};

/// `import torch` by 12 processes a node.
pub const TORCH: Workload = Workload {
    small_files: stated("small files", 728.0, "", "the paper, section V: 690 byte code, 27 libraries, 11 sources"),
    small: stated("their bytes", 36.3e6, "B", "the paper, section V"),
    directories: stated("directories", 60.0, "", "assumed: one for 12 files"),
    absent_names: stated("absent names", 690.0, "", "Copper docs, profiling: 560 to 824 absences a rank"),
    large_files: stated("files above 10 MB", 12.0, "", ASSUMED),
    large: stated("bytes read of them", 1.5e9, "B", "assumed; Fig. 5, Copper at 8,300 nodes, would need 2.1 GB"),
    processes: stated("processes a node", 12.0, "", PAPER),
    computing: stated("computing and launch", 1.0, "s", "Fig. 5: direct, 32 nodes"),
    image_share: stated("compressed to", 0.45, "", "assumed; measured for numpy, scipy and others: 124 of 449 MB"),
};

/// `import horovod` with torch, as of Fig. 1.
pub const HOROVOD: Workload = Workload {
    small_files: TORCH.small_files.but(1830.0, "assumed; with mpi4py's count fitted to the ratio in Fig. 1"),
    small: TORCH.small.but(91e6, "assumed: 50 kB a file"),
    directories: TORCH.directories.but(150.0, "assumed: one for 12 files"),
    absent_names: TORCH.absent_names.but(1700.0, ASSUMED),
    computing: TORCH.computing.but(8.0, "Fig. 1: the least times, at few nodes"),
    ..TORCH
};

/// `import mpi4py`, as of Fig. 1.
pub const MPI4PY: Workload = Workload {
    small_files: TORCH.small_files.but(290.0, "assumed: the interpreter's own and a few"),
    small: TORCH.small.but(9e6, ASSUMED),
    directories: TORCH.directories.but(20.0, ASSUMED),
    absent_names: TORCH.absent_names.but(200.0, ASSUMED),
    large_files: TORCH.large_files.but(1.0, ASSUMED),
    large: TORCH.large.but(30e6, ASSUMED),
    computing: TORCH.computing.but(8.0, "Fig. 1: the least times, at few nodes"),
    ..TORCH
};

/// The file system on the day of Fig. 1.
pub const AURORA_FIG_1: Machine = Machine {
    file_system: FileSystemParameters {
        metadata_request: AURORA.file_system.metadata_request.but(726e-6, "fitted: Fig. 1, horovod, 512 nodes: 603 s"),
        ..AURORA.file_system
    },
    ..AURORA
};

/// Copper 1.0 as the paper and its documents describe it.
pub const COPPER: CopperParameters = CopperParameters {
    levels: stated("Copper, levels of the tree", 5.0, "", "Copper's sources: at most 5, fan-out as needed"),
    questions: stated(
        "Copper, questions that travel up",
        1740.0,
        "",
        "Copper docs, profiling: 948 to 1,165 misses, 560 to 824 absences",
    ),
    root_question: stated(
        "Copper, a question at the root",
        24e-3,
        "s",
        "fitted: Fig. 4, mean of 32 to 2,048 nodes: 45 s",
    ),
    call: stated("Copper, each end of a call", 0.12e-3, "s", "Fig. 3: below 1 ms there and back over 4 hops"),
    calls_at_once: stated("Copper, calls at once", 4.0, "", "the paper: 4 cores a node"),
    largest: stated("Copper, largest file that is cached", 10e6, "B", PAPER),
    second_run: stated("Copper, a second run", 2.0, "s", "Fig. 5: 32 to 2,048 nodes"),
};

/// How jobs of real cores are told, alike at every number of nodes, or they could not be compared.
pub const MODEL: ModelParameters = ModelParameters {
    starts_within: stated("programs, first to last", 0.1, "s", "the paper, section V: mpiexec takes 0.1 to 0.3 s"),
    small_grain: stated("model, small files in one", 16.0, "", "chosen: docs/scale.md says what that costs"),
    large_grain: stated("model, chunks of large files in one", 16.0, "", "chosen: docs/scale.md says what that costs"),
    piece: stated(
        "model, a piece of a body",
        262_144.0,
        "B",
        "chosen; a daemon's have 128 KiB; a prototype took as long with 64 as with 256 KiB",
    ),
    head: stated("daemon, a message without a body", 128.0, "B", ASSUMED),
};

/// The start of daemons by mpiexec or srun.
pub const START: StartParameters = StartParameters {
    level: stated("launcher, a level of its tree", 0.1, "s", "the paper, section V: mpiexec takes 0.1 to 0.3 s"),
    fan_out: stated("launcher, children in its tree", 32.0, "", ASSUMED),
    spec: stated("job spec without nodes", 1e3, "B", "measured: 0.4 to 1.2 kB"),
    spec_node: stated("job spec, a node", 38.0, "B", "its JSON, for a host name of 16 letters"),
    spec_send: stated(
        "launcher, sending a GB of job specs",
        0.17,
        "s",
        "measured: 380 kB at a time over TCP to the same host, the sender's processor time",
    ),
    spec_gigabyte: stated("job spec, reading a GB of JSON", 5.0, "s", ASSUMED),
    daemon: stated(
        "daemon, until its view answers",
        30e-3,
        "s",
        "measured: up of 16 nodes on two processors, 31 to 45 ms",
    ),
    handshake: stated("daemon, taking a connection", 100e-6, "s", "assumed; its proof alone 2.6 us of processor time"),
    report: stated("daemon, a report", 10e-6, "s", ASSUMED),
};
