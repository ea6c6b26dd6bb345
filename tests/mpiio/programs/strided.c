/* strided FILE RECORD RECORDS CALLS [blocks]: every rank has every so-manieth record of the file, and writes RECORDS of RECORD bytes
 * in each of CALLS collective calls, as a code does that writes its block of a matrix some rows at a time. With `blocks` each rank
 * has one block of the file, and writes it in order. Rank 0 prints the seconds from before the file is opened until all have closed
 * it. Byte i of the file is value(i). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char value(long long offset) { return (unsigned char)((unsigned long long)offset * 0x9e3779b97f4a7c15ull >> 56); }

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_File fh;
    MPI_Datatype one, tile;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    int record = atoi(argv[2]), records = atoi(argv[3]), calls = atoi(argv[4]);
    size_t len = (size_t)record * records;
    int is_block = argc > 5 && strcmp(argv[5], "blocks") == 0;
    unsigned char *bytes = malloc(len * calls);
    for (long long i = 0; i < (long long)records * calls; i++) {
        long long first = is_block ? (rank * (long long)records * calls + i) * record : (i * ranks + rank) * record;
        for (int j = 0; j < record; j++) bytes[i * record + j] = value(first + j);
    }
    MPI_Type_contiguous(record, MPI_BYTE, &one);
    MPI_Type_create_resized(one, 0, (MPI_Aint)record * (is_block ? 1 : ranks), &tile);
    MPI_Type_commit(&tile);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &fh);
    MPI_Offset first = (MPI_Offset)rank * (is_block ? (MPI_Offset)len * calls : record);
    MPI_File_set_view(fh, first, MPI_BYTE, tile, "native", MPI_INFO_NULL);
    for (int call = 0; call < calls; call++) {
        MPI_File_write_all(fh, bytes + call * len, (int)len, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&fh);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%.6f\n", MPI_Wtime() - start);
    MPI_Finalize();
    return 0;
}
