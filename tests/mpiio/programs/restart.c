/* restart FILE WRITERS PARTICLES: a restart on another number of ranks. Reads what `patterns FILE hacc-structs` wrote by WRITERS ranks of
 * PARTICLES: every rank gets an equal part of all particles, one variable after the other by a collective call each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char value(long long offset) {
    unsigned long long x = (unsigned long long)offset * 0x9e3779b97f4a7c15ull;
    return (unsigned char)(x >> 56 ^ x >> 24);
}

int main(int argc, char **argv) {
    static const int sizes[9] = {4, 4, 4, 4, 4, 4, 4, 8, 2};
    int rank, ranks;
    MPI_File fh;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    int writers = atoi(argv[2]);
    long long particles = atoll(argv[3]), all = particles * writers, before = 0;
    long long first = all * rank / ranks, last = all * (rank + 1) / ranks;
    int *lens = malloc(writers * sizeof *lens);
    MPI_Aint *places = malloc(writers * sizeof *places);
    unsigned char *bytes = malloc(8 * (last - first));
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &fh);
    for (int variable = 0; variable < 9; before += sizes[variable++]) {
        int n = 0, size = sizes[variable];
        for (int writer = 0; writer < writers; writer++) {
            long long from = first > writer * particles ? first : writer * particles;
            long long to = last < (writer + 1) * particles ? last : (writer + 1) * particles;
            if (from >= to) continue;
            lens[n] = (int)((to - from) * size);
            places[n++] = 38 * particles * writer + before * particles + (from - writer * particles) * size;
        }
        MPI_Datatype tile;
        MPI_Type_create_hindexed(n, lens, places, MPI_BYTE, &tile);
        MPI_Type_commit(&tile);
        MPI_File_set_view(fh, 0, MPI_BYTE, tile, "native", MPI_INFO_NULL);
        MPI_File_read_all(fh, bytes, (int)(size * (last - first)), MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Type_free(&tile);
        unsigned char *byte = bytes;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < lens[i]; j++) {
                if (*byte++ == value(places[i] + j)) continue;
                fprintf(stderr, "rank %d: byte %lld is wrong\n", rank, (long long)places[i] + j);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_File_close(&fh);
    MPI_Finalize();
    return 0;
}
