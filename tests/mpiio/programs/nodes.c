/* nodes FILE WAY BLOCKS: ranks of several nodes write one file together, byte i of it as value(i), and read what others wrote.
 * strided       each rank every so-manieth block by a view, each for itself (data sieving, where the MPI does that)
 * nested        the same in blocks with holes, which another call fills
 * collective    the same by collective calls
 * sync          blocks of all ranks, shown by MPI_File_sync and read before anybody closes
 * atomic        overlapping pieces in atomic mode: each of them is of one rank, and seen without MPI_File_sync
 * ordered       blocks by a pointer that all share */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 1000

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) fail(#call, code_);                                                                  \
    } while (0)

static int rank, ranks, blocks;
static MPI_File fh;

static void fail(const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wrong(long long offset, int found) {
    fprintf(stderr, "rank %d: byte %lld is %d\n", rank, offset, found);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char value(long long offset) {
    unsigned long long x = (unsigned long long)offset * 0x9e3779b97f4a7c15ull;
    return (unsigned char)(x >> 56 ^ x >> 24);
}

static void fill(unsigned char *bytes, long long offset, int len) {
    for (int i = 0; i < len; i++) bytes[i] = value(offset + i);
}

static void check(long long offset, int len) {
    unsigned char *bytes = malloc(len);
    MPI_Status status;
    int count;
    CHECK(MPI_File_read_at(fh, offset, bytes, len, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != len) wrong(offset + count, -1);
    for (int i = 0; i < len; i++) {
        if (bytes[i] != value(offset + i)) wrong(offset + i, bytes[i]);
    }
    free(bytes);
}

static void set_view(long long displacement, MPI_Datatype tile) {
    CHECK(MPI_File_set_view(fh, displacement, MPI_BYTE, tile, "native", MPI_INFO_NULL));
}

/* Bytes `skip` to `skip + len` of this rank's block in each round. */
static void write_parts(int skip, int len, int is_collective) {
    MPI_Datatype tile;
    MPI_Type_vector(blocks, len, BLOCK * ranks, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    long long first = (long long)rank * BLOCK + skip;
    set_view(first, tile);
    unsigned char *bytes = malloc((size_t)blocks * len);
    for (int i = 0; i < blocks; i++) fill(bytes + (size_t)i * len, first + (long long)i * BLOCK * ranks, len);
    if (is_collective) CHECK(MPI_File_write_all(fh, bytes, blocks * len, MPI_BYTE, MPI_STATUS_IGNORE));
    else CHECK(MPI_File_write(fh, bytes, blocks * len, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Type_free(&tile);
    free(bytes);
    set_view(0, MPI_BYTE);
}

static void show(void) {
    CHECK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_sync(fh));
}

static void sync_blocks(void) {
    unsigned char bytes[BLOCK];
    for (int i = 0; i < blocks; i++) {
        long long offset = ((long long)i * ranks + rank) * BLOCK;
        fill(bytes, offset, BLOCK);
        CHECK(MPI_File_write_at(fh, offset, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        show();
        check((long long)i * ranks * BLOCK, ranks * BLOCK);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* All ranks write the same pieces with holes between them, each its own number. */
static void atomic(void) {
    int len = 200, count = 50, stride = 700;
    CHECK(MPI_File_set_atomicity(fh, 1));
    MPI_Datatype tile;
    MPI_Type_vector(count, len, stride, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    unsigned char *bytes = malloc((size_t)count * len);
    for (int i = 0; i < blocks; i++) {
        set_view(0, tile);
        memset(bytes, rank + 1, (size_t)count * len);
        CHECK(MPI_File_write_at(fh, 0, bytes, count * len, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        memset(bytes, 0, (size_t)count * len);
        CHECK(MPI_File_read_at(fh, 0, bytes, count * len, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int at = 0; at < count * len; at++) {
            if (bytes[at] != bytes[0] || bytes[at] < 1 || bytes[at] > ranks) wrong(at, bytes[at]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* The bytes to compare in the end. */
    if (rank == ranks - 1) {
        for (int at = 0; at < count * len; at++) bytes[at] = value(at / len * stride + at % len);
        CHECK(MPI_File_write_at(fh, 0, bytes, count * len, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at(fh, 0, bytes, count * len, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int at = 0; at < count * len; at++) {
        if (bytes[at] != value(at / len * stride + at % len)) wrong(at, bytes[at]);
    }
    MPI_Type_free(&tile);
    free(bytes);
}

static void ordered(void) {
    unsigned char bytes[BLOCK];
    for (int i = 0; i < blocks; i++) {
        fill(bytes, ((long long)i * ranks + rank) * BLOCK, BLOCK);
        CHECK(MPI_File_write_ordered(fh, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *way = argc == 4 ? argv[2] : "";
    blocks = argc == 4 ? atoi(argv[3]) : 0;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    if (!strcmp(way, "strided")) write_parts(0, BLOCK, 0);
    else if (!strcmp(way, "collective")) write_parts(0, BLOCK, 1);
    else if (!strcmp(way, "nested")) {
        write_parts(0, 300, 0);
        write_parts(300, BLOCK - 300, 0);
    } else if (!strcmp(way, "sync")) sync_blocks();
    else if (!strcmp(way, "atomic")) atomic();
    else if (!strcmp(way, "ordered")) ordered();
    else fail("no such way", MPI_ERR_ARG);
    if (strcmp(way, "atomic")) {
        show();
        check(0, blocks * ranks * BLOCK);
    }
    CHECK(MPI_File_close(&fh));
    MPI_Finalize();
    return 0;
}
