/* hdf5 FILE: datasets that ranks write together by parallel HDF5, as its own tests do, and read back, each rank all of it.
 *
 * shared   one chunk of all ranks: HDF5 writes fill values collectively, each rank its part by itself after a barrier
 * chunks   several chunks with fill values, of which each rank writes parts by itself, and leaves the rest
 * blocks   a row of each rank in turn, collectively, and then every second row again, independently
 * gzip     compressed chunks, which HDF5 reads, merges and writes collectively
 * grown    a dataset that becomes longer, and is filled where nobody writes */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1024, FILL = -7, ROUNDS = 4 };
static int rank, ranks;
static hid_t file, collective, independent;

static void fail(const char *what, int line) {
    fprintf(stderr, "rank %d, line %d: %s\n", rank, line, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK(call)                                                                                                    \
    ({                                                                                                                 \
        long long code_ = (long long)(call);                                                                           \
        if (code_ < 0) fail(#call, __LINE__);                                                                          \
        code_;                                                                                                         \
    })

static hid_t create(const char *name, hsize_t size, hsize_t chunk, hsize_t most, int gzip) {
    int fill = FILL;
    hid_t space = CHECK(H5Screate_simple(1, &size, &most)), how = CHECK(H5Pcreate(H5P_DATASET_CREATE));
    CHECK(H5Pset_fill_value(how, H5T_NATIVE_INT, &fill));
    if (chunk) CHECK(H5Pset_chunk(how, 1, &chunk));
    if (gzip) CHECK(H5Pset_deflate(how, 4));
    hid_t set = CHECK(H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, how, H5P_DEFAULT));
    CHECK(H5Pclose(how));
    CHECK(H5Sclose(space));
    return set;
}

/* Numbers from a place on, with a stride; value(i) is i plus an amount. */
static void write_part(hid_t set, hsize_t start, hsize_t stride, hsize_t count, int plus, hid_t how) {
    int *values = malloc((count + 1) * sizeof *values);
    for (hsize_t i = 0; i < count; i++) values[i] = (int)(start + i * stride) + plus;
    hid_t place = CHECK(H5Dget_space(set)), memory = CHECK(H5Screate_simple(1, &count, NULL));
    if (count) {
        CHECK(H5Sselect_hyperslab(place, H5S_SELECT_SET, &start, &stride, &count, NULL));
    } else {
        CHECK(H5Sselect_none(place));
        CHECK(H5Sselect_none(memory));
    }
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, place, how, values));
    CHECK(H5Sclose(place));
    CHECK(H5Sclose(memory));
    free(values);
}

static int *expected;

static void check(const char *name, hsize_t size) {
    int *found = malloc(size * sizeof *found), wrong = 0, first = -1;
    hid_t set = CHECK(H5Dopen2(file, name, H5P_DEFAULT));
    CHECK(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, independent, found));
    CHECK(H5Dclose(set));
    for (hsize_t i = 0; i < size; i++) {
        if (found[i] != expected[i] && wrong++ == 0) first = (int)i;
    }
    if (wrong) {
        fprintf(stderr, "rank %d: %s: %d of %d values wrong; %d is %d instead of %d\n", rank, name, wrong, (int)size, first,
                found[first], expected[first]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(found);
}

static void shared(const char *name) {
    hid_t set = create(name, N * ranks, N * ranks, N * ranks, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    /* All but the first rank's neighbour's, so that fill values stay. */
    if (rank != 1) write_part(set, (hsize_t)N * rank, 1, N, 0, independent);
    CHECK(H5Dclose(set));
    for (int i = 0; i < N * ranks; i++) expected[i] = i / N == 1 ? FILL : i;
}

static void chunks(const char *name) {
    hid_t set = create(name, N * ranks, 100, N * ranks, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int part = 0; part < 4; part++) write_part(set, (hsize_t)(part * N / 4 * ranks + N / 4 * rank), 1, 100, 0, independent);
    CHECK(H5Dclose(set));
    for (int i = 0; i < N * ranks; i++) expected[i] = i % (N / 4) < 100 ? i : FILL;
}

static void blocks(const char *name) {
    hid_t set = create(name, N * ranks, 0, N * ranks, 0);
    write_part(set, rank, ranks, N, 0, collective);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Of the next rank's values the even ones. */
    write_part(set, (rank + 1) % ranks, 2 * ranks, N / 2, 1000000, independent);
    MPI_Barrier(MPI_COMM_WORLD);
    write_part(set, (hsize_t)rank * N, 1, 10, 2000000, collective);
    CHECK(H5Dclose(set));
    for (int i = 0; i < N * ranks; i++) expected[i] = i % N < 10 ? i + 2000000 : i / ranks % 2 == 0 ? i + 1000000 : i;
}

static void gzip(const char *name) {
    hid_t set = create(name, N * ranks, N, N * ranks, 1);
    for (int i = 0; i < 2; i++) write_part(set, (hsize_t)rank * 100 + i * N, 1, rank < 10 ? 100 : 0, i, collective);
    CHECK(H5Dclose(set));
    for (int i = 0; i < N * ranks; i++) expected[i] = i / N < 2 && i % N < 100 * (ranks < 10 ? ranks : 10) ? i + i / N : FILL;
}

static void grown(const char *name) {
    hsize_t half = N * ranks / 2, all = N * ranks;
    hid_t set = create(name, half, 64, H5S_UNLIMITED, 0);
    write_part(set, (hsize_t)rank * 8, 1, 8, 0, collective);
    CHECK(H5Dset_extent(set, &all));
    MPI_Barrier(MPI_COMM_WORLD);
    write_part(set, half + (hsize_t)rank * 8, 1, 8, 0, independent);
    CHECK(H5Dclose(set));
    for (int i = 0; i < N * ranks; i++) expected[i] = i % (int)half < 8 * ranks ? i : FILL;
}

int main(int argc, char **argv) {
    static void (*const cases[])(const char *) = {shared, chunks, blocks, gzip, grown};
    static const char *const names[] = {"shared", "chunks", "blocks", "gzip", "grown"};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    expected = malloc((size_t)N * ranks * sizeof *expected);
    hid_t access = CHECK(H5Pcreate(H5P_FILE_ACCESS));
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    collective = CHECK(H5Pcreate(H5P_DATASET_XFER));
    CHECK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    independent = CHECK(H5Pcreate(H5P_DATASET_XFER));
    CHECK(H5Pset_dxpl_mpio(independent, H5FD_MPIO_INDEPENDENT));
    file = CHECK(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access));
    char name[64];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            snprintf(name, sizeof name, "%s%d", names[i], round);
            cases[i](name);
            /* Also before the file is closed: a barrier is enough for other ranks to see the values. */
            MPI_Barrier(MPI_COMM_WORLD);
            check(name, (hsize_t)N * ranks);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    CHECK(H5Fclose(file));
    file = CHECK(H5Fopen(argv[1], H5F_ACC_RDONLY, access));
    /* The data that the last case of the last round left are there when the file is opened again. */
    check(name, (hsize_t)N * ranks);
    CHECK(H5Fclose(file));
    MPI_Finalize();
    return 0;
}
