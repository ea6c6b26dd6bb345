/* The MPI calls that the library stands before, typed as in mpi.h: fb_File_write_at_all(...) for MPI_File_write_at_all.
 * `gate.c` exports them under MPI's names. */
#ifndef FOREBAY_MPIIO_CALLS_H
#define FOREBAY_MPIIO_CALLS_H

#include "mpi_table.h"

/* FB_FORMED(X, name): X for every form of a call with a count. */
#ifdef FB_HAS_LARGE
#define FB_FORMED(X, name) X(name) X(name##_c)
#else
#define FB_FORMED(X, name) X(name)
#endif

/* Collective writes, and what leaves them following each other: bytes are held on. */
#define FB_FOLLOWING_CALLS(X)                                                                                          \
    FB_FORMED(X, File_write_at_all) FB_FORMED(X, File_write_all) FB_FORMED(X, File_write_at_all_begin)                 \
    FB_FORMED(X, File_write_all_begin) X(File_write_at_all_end) X(File_write_all_end) X(File_seek) X(File_get_info)

/* Collective calls before which all ranks write together what they hold of the file (and File_close, whose handle comes by address). */
#define FB_TOGETHER_CALLS(X)                                                                                           \
    X(File_set_size) X(File_preallocate) X(File_sync) X(File_set_atomicity)                                            \
    FB_FORMED(X, File_read_at_all) FB_FORMED(X, File_read_all) FB_FORMED(X, File_read_at_all_begin)                    \
    FB_FORMED(X, File_read_all_begin) FB_FORMED(X, File_read_ordered) FB_FORMED(X, File_write_ordered)                 \
    FB_FORMED(X, File_read_ordered_begin) FB_FORMED(X, File_write_ordered_begin)

/* All others: this rank writes what it holds of any file. */
#define FB_ALONE_CALLS(X)                                                                                              \
    X(File_open) X(File_delete) X(File_get_size) X(File_seek_shared) X(File_set_info) X(File_set_view) X(Finalize) \
    X(File_read_at_all_end) X(File_read_all_end) X(File_read_ordered_end) X(File_write_ordered_end)                    \
    FB_FORMED(X, File_read_at) FB_FORMED(X, File_write_at) FB_FORMED(X, File_iread_at) FB_FORMED(X, File_iwrite_at)    \
    FB_FORMED(X, File_iread_at_all) FB_FORMED(X, File_iwrite_at_all) FB_FORMED(X, File_read) FB_FORMED(X, File_write)  \
    FB_FORMED(X, File_iread) FB_FORMED(X, File_iwrite) FB_FORMED(X, File_iread_all) FB_FORMED(X, File_iwrite_all)      \
    FB_FORMED(X, File_read_shared) FB_FORMED(X, File_write_shared) FB_FORMED(X, File_iread_shared)                     \
    FB_FORMED(X, File_iwrite_shared)

/* It ends the program, whatever the file system does. */
#define FB_ENDING_CALLS(X) X(Abort)

#define FB_CALLS(X) FB_FOLLOWING_CALLS(X) FB_TOGETHER_CALLS(X) FB_ALONE_CALLS(X) FB_ENDING_CALLS(X) X(File_close)

#define X(name) extern __typeof__(PMPI_##name) fb_##name;
FB_CALLS(X)
#undef X

#endif
