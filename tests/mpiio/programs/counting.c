/* A tool that profiles a program: it stands before some calls, counts them, and calls the MPI by the names that the standard gives tools.
 * At the end each rank says what it has counted. */
#include <mpi.h>
#include <stdio.h>

static int opens, writes, reads;

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *fh) {
    opens++;
    return PMPI_File_open(comm, name, mode, info, fh);
}

int MPI_File_write_at_all(MPI_File fh, MPI_Offset at, const void *bytes, int count, MPI_Datatype type, MPI_Status *status) {
    writes++;
    return PMPI_File_write_at_all(fh, at, bytes, count, type, status);
}

int MPI_File_read_at_all(MPI_File fh, MPI_Offset at, void *bytes, int count, MPI_Datatype type, MPI_Status *status) {
    reads++;
    return PMPI_File_read_at_all(fh, at, bytes, count, type, status);
}

int MPI_Finalize(void) {
    fprintf(stderr, "tool: %d opens, %d writes, %d reads\n", opens, writes, reads);
    return PMPI_Finalize();
}
