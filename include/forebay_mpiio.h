/* Forebay: aggregated writes and reads of one file by many ranks, for programs that declare what they are going to write.
 *
 *     forebay_mpiio *file;
 *     forebay_mpiio_open(MPI_COMM_WORLD, "checkpoint", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
 *     forebay_mpiio_declare(file, 9, offsets, lengths);
 *     for (int i = 0; i < 9; i++) forebay_mpiio_write(file, offsets[i], variables[i], lengths[i]);
 *     forebay_mpiio_flush(file);
 *     forebay_mpiio_finalise(file);
 *
 * Link with -lforebay_mpiio_openmpi or -lforebay_mpiio_mpich, whichever is the program's MPI. Unmodified MPI-IO programs need
 * none of this: they preload the same library (docs/mpiio.md, which also has the hints that MPI_Info may carry).
 *
 * All functions return MPI_SUCCESS or an MPI error class, as docs/mpiio.md has them. Collective ones are called by all ranks
 * of the communicator, in the same order, and return an error on every rank if any rank met one.
 */
#ifndef FOREBAY_MPIIO_H
#define FOREBAY_MPIIO_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file of this rank. */
typedef struct forebay_mpiio forebay_mpiio;

/* Opens a file, as MPI_File_open does. Collective. */
int forebay_mpiio_open(MPI_Comm comm, const char *path, int amode, MPI_Info info, forebay_mpiio **file);

/* Declares all extents, in bytes, that this rank will write until the next flush; 0 of them if it has none. The exchange is
 * planned now, and what is written is held in memory whatever it takes. Collective; flushes first. */
int forebay_mpiio_declare(forebay_mpiio *file, int count, const MPI_Offset *offsets, const MPI_Offset *lengths);

/* Writes bytes of this rank: they are copied, and in the file after the flush. MPI_ERR_ARG for bytes that were not declared, if
 * any were. Without a declaration what exceeds the buffer is written by this rank alone. */
int forebay_mpiio_write(forebay_mpiio *file, MPI_Offset offset, const void *bytes, MPI_Offset length);

/* Reads bytes into this rank's memory, which is filled by the next flush. `there`, if not NULL, then says how many bytes the
 * file had: fewer than `length` only at its end. */
int forebay_mpiio_read(forebay_mpiio *file, MPI_Offset offset, void *bytes, MPI_Offset length, MPI_Offset *there);

/* Brings what was written into the file, then reads. Collective. */
int forebay_mpiio_flush(forebay_mpiio *file);

/* The plan and the work so far, as JSON; the same that `forebay mpiio --explain FILE` shows when the file is closed.
 * Returns the bytes that all of it needs with its NUL; the rest without room is cut. */
size_t forebay_mpiio_explain(forebay_mpiio *file, char *text, size_t room);

/* Flushes and closes. Collective. The file is gone, also after an error. */
int forebay_mpiio_finalise(forebay_mpiio *file);

/* For Fortran, whose communicators and hints are integers; include/forebay_mpiio.f90 has the interfaces. */
int forebay_mpiio_open_f(MPI_Fint comm, const char *path, int amode, MPI_Fint info, forebay_mpiio **file);

#ifdef __cplusplus
}
#endif

#endif
