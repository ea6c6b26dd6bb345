// A program like BTIO of the NAS benchmarks over PnetCDF: N^3 points of 5 doubles, cut into a block for each rank in three dimensions, written
// at every time step by one blocking collective call into one shared file.
//
// btio FILE N STEPS [HINT VALUE]: prints the seconds from before the file is made until all ranks have closed it. Every value tells its
// place; after the end each rank reads its block of the last step again by a call of its own and compares.
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

enum { SPACE = 3, COMPONENTS = 5, DIMENSIONS = 5 };

static int rank;

static void check(int error, const char *what) {
    if (error != NC_NOERR) {
        fprintf(stderr, "btio: rank %d: %s: %s\n", rank, what, ncmpi_strerror(error));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double value(MPI_Offset step, MPI_Offset z, MPI_Offset y, MPI_Offset x, int component) {
    return (double)step * 1e9 + (double)(z * 1000000 + y * 1000 + x) + component / 8.0;
}

// Fills the block of a step, or compares with it.
static void visit(double *block, const MPI_Offset *start, const MPI_Offset *count, int compares) {
    for (MPI_Offset z = 0; z < count[1]; z++)
        for (MPI_Offset y = 0; y < count[2]; y++)
            for (MPI_Offset x = 0; x < count[3]; x++)
                for (int component = 0; component < COMPONENTS; component++, block++) {
                    double wanted = value(start[0], start[1] + z, start[2] + y, start[3] + x, component);
                    if (!compares) {
                        *block = wanted;
                    } else if (*block != wanted) {
                        fprintf(stderr, "btio: rank %d: %g is read, not %g\n", rank, *block, wanted);
                        MPI_Abort(MPI_COMM_WORLD, 1);
                    }
                }
}

int main(int words, char **word) {
    MPI_Init(&words, &word);
    int ranks, blocks[SPACE] = {0, 0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (words != 4 && words != 6) {
        if (rank == 0) fprintf(stderr, "usage: btio FILE N STEPS [HINT VALUE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Offset points = atoll(word[2]), steps = atoll(word[3]);
    MPI_Dims_create(ranks, SPACE, blocks);
    int place[SPACE] = {rank / (blocks[1] * blocks[2]), rank / blocks[2] % blocks[1], rank % blocks[2]};
    MPI_Offset start[DIMENSIONS] = {0}, count[DIMENSIONS] = {1, 0, 0, 0, COMPONENTS}, values = COMPONENTS;
    for (int at = 0; at < SPACE; at++) {
        start[at + 1] = points * place[at] / blocks[at];
        count[at + 1] = points * (place[at] + 1) / blocks[at] - start[at + 1];
        values *= count[at + 1];
    }
    double *block = malloc((size_t)values * sizeof *block);
    MPI_Info info = MPI_INFO_NULL;
    if (words == 6) {
        MPI_Info_create(&info);
        MPI_Info_set(info, word[4], word[5]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), took;
    int file, variable, dimensions[DIMENSIONS];
    check(ncmpi_create(MPI_COMM_WORLD, word[1], NC_CLOBBER | NC_64BIT_DATA, info, &file), word[1]);
    const char *names[DIMENSIONS] = {"step", "z", "y", "x", "component"};
    MPI_Offset lengths[DIMENSIONS] = {steps, points, points, points, COMPONENTS};
    for (int at = 0; at < DIMENSIONS; at++) check(ncmpi_def_dim(file, names[at], lengths[at], &dimensions[at]), names[at]);
    check(ncmpi_def_var(file, "u", NC_DOUBLE, DIMENSIONS, dimensions, &variable), "u");
    check(ncmpi_enddef(file), "the header");
    for (start[0] = 0; start[0] < steps; start[0]++) {
        visit(block, start, count, 0);
        check(ncmpi_put_vara_double_all(file, variable, start, count, block), "a step");
    }
    check(ncmpi_close(file), "close");
    double own = MPI_Wtime() - began;
    MPI_Reduce(&own, &took, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    start[0] = steps - 1;
    check(ncmpi_open(MPI_COMM_WORLD, word[1], NC_NOWRITE, MPI_INFO_NULL, &file), word[1]);
    check(ncmpi_begin_indep_data(file), "reading");
    check(ncmpi_get_vara_double(file, 0, start, count, block), "reading");
    check(ncmpi_end_indep_data(file), "reading");
    check(ncmpi_close(file), "close");
    visit(block, start, count, 1);
    if (rank == 0) printf("%.6f\n", took);
    free(block);
    MPI_Finalize();
    return 0;
}
