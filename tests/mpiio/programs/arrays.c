/* arrays FILE: ranks write datasets of an HDF5 file together, or with -DPNETCDF variables of a PnetCDF file: rows and columns, each
 * for itself and collectively; then all of them read all of it. The file has no times in it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 64
#define COLUMNS 96

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            fprintf(stderr, "rank %d: %s\n", rank, #call);                                                             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static int rank, ranks;

static int value(int dataset, int row, int column) { return dataset * 1000000 + row * 1000 + column; }

/* A rank's part: rows of datasets 0 and 1, columns of the others. */
static void part(int dataset, long long start[2], long long count[2]) {
    int by_rows = dataset < 2, all = by_rows ? ROWS : COLUMNS;
    start[0] = by_rows ? (long long)all * rank / ranks : 0;
    start[1] = by_rows ? 0 : (long long)all * rank / ranks;
    count[0] = by_rows ? (long long)all * (rank + 1) / ranks - start[0] : ROWS;
    count[1] = by_rows ? COLUMNS : (long long)all * (rank + 1) / ranks - start[1];
}

static int *numbers(int dataset, const long long start[2], const long long count[2]) {
    int *all = malloc(sizeof(int) * ROWS * COLUMNS), *at = all;
    for (long long row = start[0]; row < start[0] + count[0]; row++) {
        for (long long column = start[1]; column < start[1] + count[1]; column++) *at++ = value(dataset, row, column);
    }
    return all;
}

static void compare(int dataset, const int *read) {
    for (int at = 0; at < ROWS * COLUMNS; at++) {
        if (read[at] != value(dataset, at / COLUMNS, at % COLUMNS)) {
            fprintf(stderr, "rank %d: dataset %d, number %d is %d\n", rank, dataset, at, read[at]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

#ifdef PNETCDF
#include <pnetcdf.h>

#define OK(call) CHECK((call) == NC_NOERR ? 0 : -1)

static void write_all(const char *name) {
    int file, dimensions[2], variables[4];
    OK(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    OK(ncmpi_def_dim(file, "rows", ROWS, &dimensions[0]));
    OK(ncmpi_def_dim(file, "columns", COLUMNS, &dimensions[1]));
    for (int i = 0; i < 4; i++) {
        char variable[] = {'v', '0' + i, 0};
        OK(ncmpi_def_var(file, variable, NC_INT, 2, dimensions, &variables[i]));
    }
    OK(ncmpi_enddef(file));
    for (int i = 0; i < 4; i++) {
        long long start[2], count[2];
        part(i, start, count);
        MPI_Offset first[2] = {start[0], start[1]}, many[2] = {count[0], count[1]};
        int *mine = numbers(i, start, count);
        if (i % 2) {
            OK(ncmpi_put_vara_int_all(file, variables[i], first, many, mine));
        } else {
            OK(ncmpi_begin_indep_data(file));
            OK(ncmpi_put_vara_int(file, variables[i], first, many, mine));
            OK(ncmpi_end_indep_data(file));
        }
        free(mine);
    }
    OK(ncmpi_close(file));
}

static void read_all(const char *name) {
    int file, *all = malloc(sizeof(int) * ROWS * COLUMNS);
    OK(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &file));
    for (int i = 0; i < 4; i++) {
        MPI_Offset first[2] = {0, 0}, many[2] = {ROWS, COLUMNS};
        OK(ncmpi_get_vara_int_all(file, i, first, many, all));
        compare(i, all);
    }
    OK(ncmpi_close(file));
    free(all);
}
#else
#include <hdf5.h>

static hid_t parallel(void) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    return access;
}

static void write_all(const char *name) {
    hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {ROWS / 4, COLUMNS / 4};
    hid_t access = parallel(), file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    for (int i = 0; i < 4; i++) {
        char dataset[] = {'v', '0' + i, 0};
        hid_t made = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, size, NULL);
        CHECK(H5Pset_obj_track_times(made, 0));
        CHECK(H5Pset_alloc_time(made, H5D_ALLOC_TIME_EARLY));
        if (i == 3) CHECK(H5Pset_chunk(made, 2, chunk));
        hid_t set = H5Dcreate2(file, dataset, H5T_NATIVE_INT, space, H5P_DEFAULT, made, H5P_DEFAULT);
        CHECK(set);
        long long start[2], count[2];
        part(i, start, count);
        hsize_t first[2] = {start[0], start[1]}, many[2] = {count[0], count[1]};
        hid_t memory = H5Screate_simple(2, many, NULL), transfer = H5Pcreate(H5P_DATASET_XFER);
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, many, NULL));
        CHECK(H5Pset_dxpl_mpio(transfer, i % 2 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
        int *mine = numbers(i, start, count);
        CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, mine));
        free(mine);
        H5Pclose(transfer), H5Sclose(memory), H5Dclose(set), H5Sclose(space), H5Pclose(made);
    }
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    CHECK(H5Fclose(file));
    H5Pclose(access);
}

/* By one process for itself, too. */
static void read_all(const char *name) {
    int *all = malloc(sizeof(int) * ROWS * COLUMNS);
    for (int is_parallel = 0; is_parallel < 2; is_parallel++) {
        hid_t access = is_parallel ? parallel() : H5P_DEFAULT, file = H5Fopen(name, H5F_ACC_RDONLY, access);
        CHECK(file);
        for (int i = 0; i < 4; i++) {
            char dataset[] = {'v', '0' + i, 0};
            hid_t set = H5Dopen2(file, dataset, H5P_DEFAULT);
            CHECK(set);
            CHECK(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all));
            compare(i, all);
            H5Dclose(set);
        }
        CHECK(H5Fclose(file));
    }
    free(all);
}
#endif

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    write_all(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    read_all(argv[1]);
    MPI_Finalize();
    return 0;
}
