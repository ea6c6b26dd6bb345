/* grid FILE mpi|hand L: a lattice of L^4 sites of 192 bytes, divided in blocks of all four dimensions among the ranks, is written into one
 * file in the order of its sites and read back: by MPI-IO with a view of a subarray and without a hint, or by hand, as lattice
 * codes do it: every rank gets a part of the file by MPI_Alltoallv, and writes it by one request. Rank 0 prints the seconds of
 * the write and of the read, each from before the file is opened until all have closed it. Every byte that is read is checked. */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITE = 192, DIMENSIONS = 4 };

static int rank, ranks, length, grid[DIMENSIONS], own[DIMENSIONS], first[DIMENSIONS];

static void fail(const char *what) {
    fprintf(stderr, "grid: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The first dimension runs slowest, as in a subarray in C's order. */
static long index_of(const int at[DIMENSIONS]) {
    long index = 0;
    for (int d = 0; d < DIMENSIONS; d++) index = index * length + at[d];
    return index;
}

static void place_of(long local, int at[DIMENSIONS]) {
    for (int d = DIMENSIONS - 1; d >= 0; d--) {
        at[d] = first[d] + (int)(local % own[d]);
        local /= own[d];
    }
}

static void fill(unsigned char *site, long index) {
    for (int i = 0; i < SITE; i++) site[i] = (unsigned char)((uint64_t)(index * SITE + i) * 0x9e3779b97f4a7c15ull >> 56);
}

static void all_of_one(int fd, unsigned char *bytes, size_t len, off_t at, int writes) {
    while (len > 0) {
        ssize_t done = writes ? pwrite(fd, bytes, len, at) : pread(fd, bytes, len, at);
        if (done <= 0) fail("pwrite or pread");
        bytes += done, at += done, len -= (size_t)done;
    }
}

/* A part of the file for each rank; sites come from, or go to, the ranks that have them in their blocks. */
static void by_hand(const char *name, unsigned char *block, long sites, long total, int writes) {
    long each = (total + ranks - 1) / ranks, begin = each * rank < total ? each * rank : total;
    long end = begin + each < total ? begin + each : total;
    int *counts = calloc((size_t)ranks * 4, sizeof *counts), *starts = counts + ranks;
    int *part_counts = starts + ranks, *part_starts = part_counts + ranks;
    unsigned char *packed = malloc((size_t)sites * SITE), *part = malloc((size_t)(end - begin) * SITE + 1);
    unsigned char *moved = malloc((size_t)(end - begin) * SITE + 1);
    int at[DIMENSIONS];
    /* Sites of a block ascend in the file, so those for one rank lie together already. */
    for (long i = 0; i < sites; i++) place_of(i, at), counts[index_of(at) / each] += SITE;
    for (int r = 1; r < ranks; r++) starts[r] = starts[r - 1] + counts[r - 1];
    MPI_Alltoall(counts, 1, MPI_INT, part_counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 1; r < ranks; r++) part_starts[r] = part_starts[r - 1] + part_counts[r - 1];
    int *fill_at = calloc((size_t)ranks, sizeof *fill_at);
    int fd = open(name, writes ? O_WRONLY | O_CREAT : O_RDONLY, 0644);
    if (fd < 0) fail("open");
    if (writes) {
        MPI_Alltoallv(block, counts, starts, MPI_BYTE, moved, part_counts, part_starts, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        all_of_one(fd, part, (size_t)(end - begin) * SITE, begin * SITE, 0);
    }
    for (long site = begin; site < end; site++) {
        long left = site;
        int owner = 0, where[DIMENSIONS];
        for (int d = DIMENSIONS - 1; d >= 0; d--) where[d] = (int)(left % length), left /= length;
        for (int d = 0; d < DIMENSIONS; d++) owner = owner * grid[d] + where[d] / own[d];
        unsigned char *there = moved + part_starts[owner] + fill_at[owner], *here = part + (site - begin) * SITE;
        memcpy(writes ? here : there, writes ? there : here, SITE);
        fill_at[owner] += SITE;
    }
    if (writes) {
        all_of_one(fd, part, (size_t)(end - begin) * SITE, begin * SITE, 1);
    } else {
        MPI_Alltoallv(moved, part_counts, part_starts, MPI_BYTE, block, counts, starts, MPI_BYTE, MPI_COMM_WORLD);
    }
    if (close(fd) != 0) fail("close");
    free(counts), free(packed), free(part), free(moved), free(fill_at);
}

static void by_mpi(const char *name, unsigned char *block, long sites, int writes) {
    MPI_File file;
    MPI_Datatype site, view;
    int sizes[DIMENSIONS] = {length, length, length, length};
    MPI_Type_contiguous(SITE, MPI_BYTE, &site);
    MPI_Type_commit(&site);
    MPI_Type_create_subarray(DIMENSIONS, sizes, own, first, MPI_ORDER_C, site, &view);
    MPI_Type_commit(&view);
    MPI_File_open(MPI_COMM_WORLD, name, writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, site, view, "native", MPI_INFO_NULL);
    if (writes) MPI_File_write_all(file, block, (int)sites, site, MPI_STATUS_IGNORE);
    else MPI_File_read_all(file, block, (int)sites, site, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&view);
    MPI_Type_free(&site);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    if (argc != 4) fail("usage: grid FILE mpi|hand L");
    length = atoi(argv[3]);
    MPI_Dims_create(ranks, DIMENSIONS, grid);
    long sites = 1, total = (long)length * length * length * length;
    int left = rank;
    for (int d = DIMENSIONS - 1; d >= 0; d--) {
        if (length % grid[d]) fail("L is no multiple of the ranks of a dimension");
        own[d] = length / grid[d];
        first[d] = left % grid[d] * own[d];
        left /= grid[d];
        sites *= own[d];
    }
    unsigned char *block = malloc((size_t)sites * SITE), wanted[SITE];
    int at[DIMENSIONS];
    for (long i = 0; i < sites; i++) place_of(i, at), fill(block + i * SITE, index_of(at));
    double seconds[2];
    for (int reads = 0; reads < 2; reads++) {
        if (reads) memset(block, 0, (size_t)sites * SITE);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (strcmp(argv[2], "hand") == 0) by_hand(argv[1], block, sites, total, !reads);
        else by_mpi(argv[1], block, sites, !reads);
        MPI_Barrier(MPI_COMM_WORLD);
        seconds[reads] = MPI_Wtime() - start;
    }
    for (long i = 0; i < sites; i++) {
        place_of(i, at), fill(wanted, index_of(at));
        if (memcmp(wanted, block + i * SITE, SITE) != 0) fail("a site is not what was written");
    }
    if (rank == 0) printf("%.6f %.6f\n", seconds[0], seconds[1]);
    MPI_Finalize();
    return 0;
}
