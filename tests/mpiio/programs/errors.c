/* errors FILE BYTES: writes BYTES from every rank, interleaved, until the file system is full. Every rank prints the class of the
 * error that the sync and the close return, and what the next call returns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *class_of(int code) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_NO_SPACE ? "no-space" : class == MPI_ERR_IO ? "io" : "other";
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_File fh;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = atoi(argv[2]), record = 1000, written, synced, again;
    char *buf = malloc(bytes);
    memset(buf, 'a' + rank, bytes);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh) != MPI_SUCCESS) return 1;
    MPI_Datatype tile;
    MPI_Type_vector(bytes / record, record, record * ranks, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    MPI_File_set_view(fh, (MPI_Offset)rank * record, MPI_BYTE, tile, "native", MPI_INFO_NULL);
    written = MPI_File_write_all(fh, buf, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    synced = MPI_File_sync(fh);
    again = MPI_File_write_at_all(fh, 0, buf, record, MPI_BYTE, MPI_STATUS_IGNORE);
    printf("%s %s %s %s\n", class_of(written), class_of(synced), class_of(again), class_of(MPI_File_close(&fh)));
    MPI_Finalize();
    return 0;
}
