/* dies FILE HOW: writes collectively twice; before the file is closed the last rank dies (HOW = kill), or ends without closing
 * (HOW = leave, by all ranks) or by MPI_Abort (HOW = abort). */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, ranks;
    char buf[5000];
    MPI_File fh;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(buf, 'a' + rank, sizeof buf);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh);
    MPI_File_write_at_all(fh, rank * sizeof buf, buf, sizeof buf, MPI_BYTE, MPI_STATUS_IGNORE);
    if (!strcmp(argv[2], "kill")) {
        MPI_File_sync(fh);
        MPI_File_write_at_all(fh, (ranks + rank) * sizeof buf, buf, sizeof buf, MPI_BYTE, MPI_STATUS_IGNORE);
        if (rank == ranks - 1) raise(SIGKILL);
        MPI_File_close(&fh);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[2], "abort")) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Finalize();
    return 0;
}
