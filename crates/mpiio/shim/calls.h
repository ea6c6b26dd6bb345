/* The MPI calls that the library stands before, typed as in mpi.h: fb_File_write_at_all(...) for MPI_File_write_at_all.
 * `gate.c` exports them under MPI's names. */
#ifndef FOREBAY_MPIIO_CALLS_H
#define FOREBAY_MPIIO_CALLS_H

#include "mpi_table.h"

#define FB_FILE_CALLS(X)                                                                                               \
    X(File_open) X(File_close) X(File_delete) X(File_set_size) X(File_preallocate) X(File_get_size) X(File_seek)       \
    X(File_seek_shared) X(File_set_info)                                                                               \
    X(File_set_view) X(File_sync) X(File_get_info) X(File_set_atomicity) X(Finalize) X(Abort)                          \
    X(File_read_at_all_end) X(File_write_at_all_end) X(File_read_all_end) X(File_write_all_end)                        \
    X(File_read_ordered_end) X(File_write_ordered_end)

#define FB_COUNTED_CALLS(X, form)                                                                                      \
    X(File_read_at##form) X(File_read_at_all##form) X(File_write_at##form) X(File_write_at_all##form)                  \
    X(File_iread_at##form) X(File_iread_at_all##form) X(File_iwrite_at##form) X(File_iwrite_at_all##form)              \
    X(File_read##form) X(File_read_all##form) X(File_write##form) X(File_write_all##form) X(File_iread##form)          \
    X(File_iread_all##form) X(File_iwrite##form) X(File_iwrite_all##form) X(File_read_shared##form)                    \
    X(File_write_shared##form) X(File_iread_shared##form) X(File_iwrite_shared##form) X(File_read_ordered##form)       \
    X(File_write_ordered##form) X(File_read_at_all_begin##form) X(File_write_at_all_begin##form)                       \
    X(File_read_all_begin##form) X(File_write_all_begin##form) X(File_read_ordered_begin##form)                        \
    X(File_write_ordered_begin##form)

#ifdef FB_HAS_LARGE
#define FB_CALLS(X) FB_FILE_CALLS(X) FB_COUNTED_CALLS(X, ) FB_COUNTED_CALLS(X, _c)
#else
#define FB_CALLS(X) FB_FILE_CALLS(X) FB_COUNTED_CALLS(X, )
#endif

#define X(name) extern __typeof__(PMPI_##name) fb_##name;
FB_CALLS(X)
#undef X

#endif
