/* The MPI that the program uses, found when it is first needed.
 *
 * No part of MPI is linked: a library that is preloaded comes into programs without MPI (launchers, shells), and into
 * programs of another MPI, and must do nothing there. So every MPI function and every constant that is a variable is looked
 * up by name, and called by MPI(name). Only PMPI_ names are called, so that no wrapper meets itself.
 */
#ifndef FOREBAY_MPIIO_TABLE_H
#define FOREBAY_MPIIO_TABLE_H

#include <mpi.h>

#if MPI_VERSION >= 4
#define FB_HAS_LARGE 1
#endif

/* FB_FORMS(X): X(suffix, type of the count) for every form that calls with a count have. */
#ifdef FB_HAS_LARGE
#define FB_FORMS(X, ...) X(, int, ##__VA_ARGS__) X(_c, MPI_Count, ##__VA_ARGS__)
#define FB_LARGE_FUNCTIONS(X)                                                                                          \
    X(Type_get_envelope_c) X(Type_get_contents_c)                                                                      \
    X(File_read_at_c) X(File_read_at_all_c) X(File_write_at_c) X(File_write_at_all_c) X(File_iread_at_c)               \
    X(File_iread_at_all_c) X(File_iwrite_at_c) X(File_iwrite_at_all_c) X(File_read_c) X(File_read_all_c)               \
    X(File_write_c) X(File_write_all_c) X(File_iread_c) X(File_iread_all_c) X(File_iwrite_c) X(File_iwrite_all_c)      \
    X(File_read_shared_c) X(File_write_shared_c) X(File_iread_shared_c) X(File_iwrite_shared_c)                        \
    X(File_read_ordered_c) X(File_write_ordered_c) X(File_read_at_all_begin_c) X(File_write_at_all_begin_c)            \
    X(File_read_all_begin_c) X(File_write_all_begin_c) X(File_read_ordered_begin_c) X(File_write_ordered_begin_c)
#else
#define FB_FORMS(X, ...) X(, int, ##__VA_ARGS__)
#define FB_LARGE_FUNCTIONS(X)
#endif

#define FB_FUNCTIONS(X)                                                                                                \
    X(Abort) X(Allgather) X(Allreduce) X(Bcast) X(Comm_dup) X(Comm_free) X(Comm_idup) X(Comm_get_errhandler) X(Comm_rank)          \
    X(Comm_set_errhandler) X(Comm_size) X(Errhandler_free) X(Finalize)                                 \
    X(Get_count) X(Get_processor_name) X(Grequest_complete) X(Grequest_start) X(Info_get) X(Info_get_nkeys) X(Info_get_nthkey)      \
    X(Info_set) X(Irecv) X(Isend) X(Status_set_cancelled) X(Status_set_elements_x) X(Type_free) X(Type_get_contents)   \
    X(Type_get_envelope) X(Type_get_extent_x) X(Type_size_x) X(Wait) X(Waitall)                                                \
    X(File_call_errhandler) X(File_close) X(File_delete) X(File_get_info) X(File_get_position) X(File_get_size)        \
    X(File_open) X(File_preallocate) X(File_seek) X(File_set_atomicity) X(File_set_info) X(File_set_size)              \
    X(File_seek_shared) X(File_set_view) X(File_sync)                                                                  \
    X(File_read_at) X(File_read_at_all) X(File_write_at) X(File_write_at_all) X(File_iread_at) X(File_iread_at_all)    \
    X(File_iwrite_at) X(File_iwrite_at_all) X(File_read) X(File_read_all) X(File_write) X(File_write_all)              \
    X(File_iread) X(File_iread_all) X(File_iwrite) X(File_iwrite_all) X(File_read_shared) X(File_write_shared)         \
    X(File_iread_shared) X(File_iwrite_shared) X(File_read_ordered) X(File_write_ordered) X(File_read_at_all_begin)    \
    X(File_read_at_all_end) X(File_write_at_all_begin) X(File_write_at_all_end) X(File_read_all_begin)                 \
    X(File_read_all_end) X(File_write_all_begin) X(File_write_all_end) X(File_read_ordered_begin)                      \
    X(File_read_ordered_end) X(File_write_ordered_begin) X(File_write_ordered_end)                                     \
    FB_HANDLE_FUNCTIONS(X) FB_LARGE_FUNCTIONS(X)

/* Handles of Fortran: functions of Open MPI, the same numbers with MPICH. */
#ifdef OPEN_MPI
#define FB_HANDLE_FUNCTIONS(X) X(Comm_f2c) X(Info_f2c)
#define FB_COMM_F2C(comm) MPI(Comm_f2c)(comm)
#define FB_INFO_F2C(info) MPI(Info_f2c)(info)
#else
#define FB_HANDLE_FUNCTIONS(X)
#define FB_COMM_F2C(comm) ((MPI_Comm)(comm))
#define FB_INFO_F2C(info) ((MPI_Info)(info))
#endif

/* Constants that Open MPI has as addresses of variables, and MPICH as numbers. */
#ifdef OPEN_MPI
#define FB_CONSTANTS(X)                                                                                                \
    X(MPI_Datatype, byte, ompi_mpi_byte) X(MPI_Datatype, int64, ompi_mpi_int64_t)                                      \
    X(MPI_Datatype, short_int, ompi_mpi_short_int) X(MPI_Op, max, ompi_mpi_op_max)                                     \
    X(MPI_Errhandler, errors_return, ompi_mpi_errors_return) X(MPI_Datatype, datatype_null, ompi_mpi_datatype_null) X(MPI_Info, info_null, ompi_mpi_info_null) X(MPI_File, file_null, ompi_mpi_file_null)
#else
#define FB_CONSTANTS(X)                                                                                                \
    X(MPI_Datatype, byte, MPI_BYTE) X(MPI_Datatype, int64, MPI_INT64_T) X(MPI_Datatype, short_int, MPI_SHORT_INT)      \
    X(MPI_Op, max, MPI_MAX) X(MPI_Errhandler, errors_return, MPI_ERRORS_RETURN) X(MPI_Datatype, datatype_null, MPI_DATATYPE_NULL) X(MPI_Info, info_null, MPI_INFO_NULL) X(MPI_File, file_null, MPI_FILE_NULL)
#endif

struct fb_mpi {
#define X(name) __typeof__(&PMPI_##name) name;
    FB_FUNCTIONS(X)
#undef X
#define X(type, name, symbol) type name;
    FB_CONSTANTS(X)
#undef X
};

extern struct fb_mpi fb_mpi;

#define MPI(name) (*fb_mpi.name)

/* Whether the program's MPI is the one that this library was built for. Once it was found, it stays. */
int fb_is_ours(void);

/* The next library's function of this name, for calls that this library must not touch. */
void *fb_next(const char *name);

#endif
