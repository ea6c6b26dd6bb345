/* pnetcdf FILE: variables that ranks write together by PnetCDF, which has a handle for collective calls and one for those of a rank
 * alone on the same file, and fills variables collectively; each rank reads all of it back, and once more from the closed file. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 256, VARIABLES = 6, FILL = -9 };
static int rank, ranks, file;

static void fail(const char *what, int code, int line) {
    fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, line, what, ncmpi_strerror(code));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != NC_NOERR) fail(#call, code_, __LINE__);                                                           \
    } while (0)

static int variables[VARIABLES];

/* The expected value, at the end. */
static int value_of(int variable, int i) {
    int column = i % (N * ranks), owner = column / N;
    switch (variable) {
    case 0: return column; /* Filled, then written collectively. */
    case 1: return owner == 1 ? FILL : column + 1; /* Filled, then written by ranks alone, but by one. */
    case 2: return column % 2 ? column + 2 : column + 1000; /* Collectively, then every second value alone. */
    case 3: return column % N < 8 ? -column - 1 : FILL; /* By a type with holes in memory. */
    case 4: return column + 4; /* Collectively, alone, collectively again. */
    default: return column % N == 3 ? FILL : column + 5; /* Values out of range are filled, as for erange_fill. */
    }
}

static int *row(int variable, int count) {
    int *values = malloc(count * sizeof *values);
    for (int i = 0; i < count; i++) values[i] = value_of(variable, rank * N + i);
    return values;
}

static void put_all(int variable, MPI_Offset start, MPI_Offset count, const int *values) {
    CHECK(ncmpi_put_vara_int_all(file, variables[variable], &start, &count, values));
}

static void put(int variable, MPI_Offset start, MPI_Offset count, const int *values) {
    CHECK(ncmpi_put_vara_int(file, variables[variable], &start, &count, values));
}

static void write_all(void) {
    MPI_Offset start = (MPI_Offset)rank * N, all = (MPI_Offset)ranks * N, count = N, half = N / 2, stride = 2, few = 8;
    int *zeros = calloc(all, sizeof *zeros);
    int *values = row(0, N);
    put_all(0, start, N, values), free(values);
    /* The neighbour's values first. */
    put_all(2, (start + N) % all, N, zeros);
    put_all(4, (start + N) % all, N, zeros);
    put_all(4, (start + 2 * N) % all, N, zeros);
    put_all(4, (start + N) % all, N, zeros);
    values = row(2, N);
    MPI_Barrier(MPI_COMM_WORLD);
    put_all(2, start, N, values);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(ncmpi_begin_indep_data(file));
    for (int i = 0; i < N / 2; i++) values[i] = (int)start + 2 * i + 1000;
    CHECK(ncmpi_put_vars_int(file, variables[2], &start, &half, &stride, values));
    free(values);
    values = row(1, N);
    if (rank != 1) put(1, start, N, values);
    free(values), values = row(4, N);
    put(4, start, N, values);
    CHECK(ncmpi_end_indep_data(file));
    MPI_Barrier(MPI_COMM_WORLD);
    put_all(4, start, N / 2, values), free(values);
    /* Every second integer of memory. */
    MPI_Datatype sparse;
    MPI_Type_vector(8, 1, 2, MPI_INT, &sparse);
    MPI_Type_commit(&sparse);
    int spread[16] = {0};
    for (int i = 0; i < 8; i++) spread[2 * i] = value_of(3, rank * N + i);
    CHECK(ncmpi_put_vara_all(file, variables[3], &start, &few, spread, 1, sparse));
    MPI_Type_free(&sparse);
    double numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = i == 3 ? 1e20 : (double)start + i + 5;
    int code = ncmpi_put_vara_double_all(file, variables[5], &start, &count, numbers);
    if (code != NC_ERANGE) fail("a value out of range", code, __LINE__);
    free(zeros);
}

static void check(const char *when) {
    MPI_Offset start = 0, count = (MPI_Offset)N * ranks;
    int *found = malloc(count * sizeof *found);
    for (int variable = 0; variable < VARIABLES; variable++) {
        CHECK(ncmpi_get_vara_int_all(file, variables[variable], &start, &count, found));
        for (int i = 0; i < count; i++) {
            if (found[i] != value_of(variable, i)) {
                fprintf(stderr, "rank %d, %s: variable %d: %d is %d instead of %d\n", rank, when, variable, i, found[i],
                        value_of(variable, i));
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    free(found);
}

int main(int argc, char **argv) {
    int dimension, fill = FILL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER, MPI_INFO_NULL, &file));
    CHECK(ncmpi_def_dim(file, "x", (MPI_Offset)N * ranks, &dimension));
    for (int i = 0; i < VARIABLES; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        CHECK(ncmpi_def_var(file, name, NC_INT, 1, &dimension, &variables[i]));
        CHECK(ncmpi_def_var_fill(file, variables[i], 0, &fill));
    }
    CHECK(ncmpi_enddef(file));
    /* PnetCDF's own promise between filling and writing is a barrier. */
    MPI_Barrier(MPI_COMM_WORLD);
    write_all();
    MPI_Barrier(MPI_COMM_WORLD);
    check("open");
    CHECK(ncmpi_close(file));
    CHECK(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file));
    check("opened again");
    CHECK(ncmpi_close(file));
    MPI_Finalize();
    return 0;
}
