//! Figures that others have published, as far as they can be read off their plots.
//!
//! "The paper" is N. Lewis, K. Velusamy, K. Harms, H. Zheng, "Copper: Cooperative Caching Layer for Scalable Data Loading
//! in Exascale Supercomputers", PDSW at SC24, in the repository argonne-lcf/copper. All with 12 processes a node, each
//! point one run, on a machine that was not in production yet; points without a number in the text are read off the plot
//! (some 2 s in Figs. 4 and 5, some 10 s in Fig. 1).

/// Nodes and seconds.
pub type Points = &'static [(f64, f64)];

/// Fig. 1: `import horovod` with torch from Lustre. In the text: 603 s at 512 nodes.
pub const FIG_1_HOROVOD: Points = &[
    (1.0, 26.0),
    (2.0, 13.0),
    (4.0, 11.0),
    (8.0, 16.0),
    (16.0, 21.0),
    (32.0, 37.0),
    (64.0, 90.0),
    (128.0, 160.0),
    (256.0, 390.0),
    (512.0, 603.0),
];

/// Fig. 1: `import mpi4py` from Lustre. In the text: about 100 s at 512 nodes.
pub const FIG_1_MPI4PY: Points = &[
    (1.0, 8.0),
    (2.0, 10.0),
    (4.0, 10.0),
    (8.0, 12.0),
    (16.0, 10.0),
    (32.0, 9.0),
    (64.0, 11.0),
    (128.0, 21.0),
    (256.0, 34.0),
    (512.0, 95.0),
];

/// Fig. 4: `import torch`, first run, from Lustre.
pub const FIG_4_DIRECT: Points =
    &[(32.0, 1.5), (64.0, 15.0), (128.0, 79.0), (256.0, 78.0), (512.0, 116.0), (1024.0, 120.0), (2048.0, 120.0)];

/// Fig. 4: the same through Copper.
pub const FIG_4_COPPER: Points = &[
    (32.0, 49.0),
    (64.0, 49.0),
    (128.0, 24.0),
    (256.0, 54.0),
    (512.0, 43.0),
    (1024.0, 38.0),
    (2048.0, 57.0),
    (8300.0, 59.0),
];

/// Fig. 5: `import torch`, second run, from Lustre. In the text: about 180 s at 2,048 nodes.
pub const FIG_5_DIRECT: Points =
    &[(32.0, 1.0), (64.0, 13.0), (128.0, 18.0), (256.0, 27.0), (512.0, 54.0), (1024.0, 120.0), (2048.0, 180.0)];

/// Fig. 5: the same through Copper. In the text: 2 s, and 30 s at 8,300 nodes.
pub const FIG_5_COPPER: Points =
    &[(32.0, 2.0), (64.0, 2.0), (128.0, 2.0), (256.0, 2.0), (512.0, 2.0), (1024.0, 2.0), (2048.0, 2.5), (8300.0, 30.0)];

/// Copper's documents, "Registration and Scaling": a provider's registration, mean, while it was being debugged.
pub const COPPER_REGISTRATION: Points = &[(2.0, 0.145), (16.0, 0.154), (64.0, 2.15), (128.0, 10.25), (256.0, 44.17)];

/// The same documents: with an address book made before the start, after that.
pub const COPPER_REGISTRATION_LATER: Points = &[(512.0, 0.148)];
