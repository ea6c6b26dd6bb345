/* checkpoint FILE: nine variables of every rank, as one exchange, and back.
 *
 *     mpicc -o checkpoint checkpoint.c -lforebay_mpiio_mpich
 *     mpiexec -n 8 ./checkpoint /scratch/checkpoint
 */
#include <forebay_mpiio.h>
#include <stdio.h>
#include <stdlib.h>

enum { VARIABLES = 9, VALUES = 1000 };

static void check(int code) {
    if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, code);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    static double values[VARIABLES][VALUES], back[VARIABLES][VALUES];
    MPI_Offset offsets[VARIABLES], lengths[VARIABLES], there[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        for (int j = 0; j < VALUES; j++) values[i][j] = (rank * VARIABLES + i) * VALUES + j;
        /* All ranks' part of a variable lies together. */
        offsets[i] = ((MPI_Offset)i * ranks + rank) * (MPI_Offset)sizeof values[i];
        lengths[i] = sizeof values[i];
    }
    forebay_mpiio *file;
    check(forebay_mpiio_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    check(forebay_mpiio_declare(file, VARIABLES, offsets, lengths));
    for (int i = 0; i < VARIABLES; i++) check(forebay_mpiio_write(file, offsets[i], values[i], lengths[i]));
    check(forebay_mpiio_flush(file));
    for (int i = 0; i < VARIABLES; i++) check(forebay_mpiio_read(file, offsets[i], back[i], lengths[i], &there[i]));
    check(forebay_mpiio_flush(file));
    for (int i = 0; i < VARIABLES; i++) {
        if (there[i] != lengths[i] || back[i][0] != values[i][0] || back[i][VALUES - 1] != values[i][VALUES - 1])
            check(MPI_ERR_OTHER);
    }
    if (rank == 0) {
        char *text = malloc(forebay_mpiio_explain(file, NULL, 0));
        forebay_mpiio_explain(file, text, forebay_mpiio_explain(file, NULL, 0));
        puts(text);
        free(text);
    }
    check(forebay_mpiio_finalise(file));
    MPI_Finalize();
    return 0;
}
