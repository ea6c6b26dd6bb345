/* An MPI program that reads a file on every rank and passes 8 MiB around in a ring: with ranks of one node that is done
 * by reading each other's memory where the kernel allows it. Prints the number of ranks and the sum of all bytes read. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 1 << 20 };

int main(int argc, char **argv) {
    int rank, size, byte;
    long own = 0, sum = 0;
    long *out = malloc(NUMBERS * sizeof *out), *in = malloc(NUMBERS * sizeof *in);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!file || !out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while ((byte = getc(file)) != EOF)
        own += byte;
    for (int i = 0; i < NUMBERS; i++)
        out[i] = rank;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Sendrecv(out, NUMBERS, MPI_LONG, next, 0, in, NUMBERS, MPI_LONG, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (in[0] != last || in[NUMBERS - 1] != last)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Reduce(&own, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %ld\n", size, sum);
    MPI_Finalize();
    return 0;
}
