/* patterns FILE PATTERN SEED COUNT [PATTERN COUNT]...: writes a file by collective calls in one of the patterns of simulation codes,
 * reads it back collectively by another number of bytes a rank, and says on rank 0 how many bytes it wrote in all, and read of 40.
 * The files of further patterns are FILE.1, FILE.2 and so on. Byte i of a file is value(i), whoever writes it, but for the pattern
 * `overlaps`, where it is the rank's own. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) fail(#call, code_);                                                                  \
    } while (0)

static int rank, ranks, at_end;
static MPI_File fh;
static long long written;

static void fail(const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char value(long long offset) {
    unsigned long long x = (unsigned long long)offset * 0x9e3779b97f4a7c15ull;
    return (unsigned char)(x >> 56 ^ x >> 24);
}

/* The same on every rank: a row of random numbers from the seed. */
static unsigned long long state;
static unsigned next(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

static unsigned char *bytes_of(long long offset, long long len) {
    unsigned char *bytes = malloc(len + 1);
    for (long long i = 0; i < len; i++) bytes[i] = value(offset + i);
    return bytes;
}

static void write_at(long long offset, long long len) {
    unsigned char *bytes = bytes_of(offset, len);
    MPI_Status status;
    int count;
    CHECK(MPI_File_write_at_all(fh, offset, bytes, (int)len, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    /* Of nothing, ROMIO's collective buffering says anything. */
    if (len && count != len) fail("MPI_File_write_at_all: count", MPI_ERR_OTHER);
    memset(bytes, 0xee, len); /* The buffer is the program's again. */
    free(bytes);
    written += len;
}

/* HACC: nine variables of 38 bytes a particle; a rank's variables lie together, or a variable's ranks do. */
static void hacc(int particles, int structs_of_arrays) {
    static const int sizes[9] = {4, 4, 4, 4, 4, 4, 4, 8, 2};
    long long before = 0;
    for (int variable = 0; variable < 9; variable++) {
        long long len = (long long)sizes[variable] * particles;
        write_at(structs_of_arrays ? before * particles * ranks + rank * len : 38ll * particles * rank + before * particles,
                 len);
        before += sizes[variable];
    }
}

/* IOR: every rank a block of each segment, in transfers. */
static void segmented(int segments) {
    int transfer = 10000, transfers = 4;
    for (int segment = 0; segment < segments; segment++) {
        for (int i = 0; i < transfers; i++) {
            write_at((long long)transfer * (((long long)segment * ranks + rank) * transfers + i), transfer);
        }
    }
}

/* A vector view: every rank has every so-manieth record. */
static void strided(int records) {
    int len = 1000;
    MPI_Datatype tile;
    MPI_Type_vector(records, len, len * ranks, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    CHECK(MPI_File_set_view(fh, 12 + (long long)rank * len, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    unsigned char *bytes = malloc((long long)records * len);
    for (int i = 0; i < records; i++) {
        for (int j = 0; j < len; j++) bytes[(long long)i * len + j] = value(12 + ((long long)i * ranks + rank) * len + j);
    }
    /* In three calls that go on where the one before ended. */
    long long total = (long long)records * len, done = 0;
    for (int call = 0; call < 3; call++) {
        long long part = call < 2 ? total / 3 : total - done;
        CHECK(MPI_File_write_all(fh, bytes + done, (int)part, MPI_BYTE, MPI_STATUS_IGNORE));
        done += part;
    }
    written += total;
    MPI_Type_free(&tile);
    free(bytes);
    CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* Random extents of random ranks, with holes between some; in rounds, some ranks have nothing in some. */
static void uneven(int calls) {
    long long at = 0;
    for (int call = 0; call < calls; call++) {
        int n = 0, lens[512];
        MPI_Aint places[512];
        for (int i = 0; i < 400; i++) {
            int len = 1 + (int)next(next(10) == 0 ? 30000 : 300), owner = (int)next(ranks + 1);
            if (owner == rank && call % 5 != rank % 5) {
                lens[n] = len;
                places[n++] = at;
            }
            at += len; /* Rank `ranks` does not exist: a hole. */
        }
        long long total = 0, done = 0;
        for (int i = 0; i < n; i++) total += lens[i];
        unsigned char *bytes = malloc(total + 1);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < lens[i]; j++) bytes[done++] = value(places[i] + j);
        }
        MPI_Datatype tile;
        MPI_Type_create_hindexed(n, lens, places, MPI_BYTE, &tile);
        MPI_Type_commit(&tile);
        CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, n ? tile : MPI_BYTE, "native", MPI_INFO_NULL));
        CHECK(MPI_File_write_all(fh, bytes, (int)total, MPI_BYTE, MPI_STATUS_IGNORE));
        written += total;
        MPI_Type_free(&tile);
        free(bytes);
    }
    CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* All ranks write some of the bytes that others write, in one call. */
static void overlaps(int len) {
    unsigned char *bytes = malloc(2 * len);
    memset(bytes, rank + 1, 2 * len);
    CHECK(MPI_File_write_at_all(fh, (long long)rank * len, bytes, 2 * len, MPI_BYTE, MPI_STATUS_IGNORE));
    written += 2 * len;
    free(bytes);
}

/* One rank has everything. */
static void one(int len) {
    write_at(0, rank == ranks - 1 ? len : 0);
    write_at(len, rank == 0 ? len : 0);
}

/* Every rank reads an equal part of the file, in odd pieces. */
static void read_back(const char *name, int checks) {
    MPI_Offset size;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    CHECK(MPI_File_get_size(fh, &size));
    long long piece = 7001, first = size / ranks * rank, last = rank == ranks - 1 ? size : size / ranks * (rank + 1);
    long long longest = size - size / ranks * (ranks - 1);
    for (long long done = 0; done < longest; done += 3 * piece) {
        long long offset = first + done, want = offset + 3 * piece <= last ? 3 * piece : offset < last ? last - offset : 0;
        unsigned char *bytes = malloc(want + 1);
        MPI_Status status;
        int count;
        CHECK(MPI_File_read_at_all(fh, offset, bytes, (int)want, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count != want) fail("MPI_File_read_at_all: count", MPI_ERR_OTHER);
        for (long long i = 0; checks && i < want; i++) {
            /* Holes are zeros. */
            if (bytes[i] != value(offset + i) && (checks == 1 || bytes[i])) {
                fprintf(stderr, "rank %d: byte %lld is %d instead of %d\n", rank, offset + i, bytes[i], value(offset + i));
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        free(bytes);
    }
    /* Beyond the end there is nothing to read. (ROMIO's two phases say 100 where 40 were read, so this only tells.) */
    char beyond[100];
    MPI_Status status;
    CHECK(MPI_File_read_at_all(fh, size > 40 ? size - 40 : 0, beyond, 100, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &at_end);
    CHECK(MPI_File_close(&fh));
}

static void write_and_read(const char *name, const char *pattern, int n) {
    written = 0;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    if (!strcmp(pattern, "hacc-structs")) hacc(n, 0);
    else if (!strcmp(pattern, "hacc-arrays")) hacc(n, 1);
    else if (!strcmp(pattern, "segmented")) segmented(n);
    else if (!strcmp(pattern, "strided")) strided(n);
    else if (!strcmp(pattern, "uneven")) uneven(n);
    else if (!strcmp(pattern, "overlaps")) overlaps(n);
    else if (!strcmp(pattern, "one")) one(n);
    else fail("no such pattern", MPI_ERR_ARG);
    CHECK(MPI_File_close(&fh));
    long long total;
    MPI_Reduce(&written, &total, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    read_back(name, !strcmp(pattern, "overlaps") ? 0 : !strcmp(pattern, "uneven") || !strcmp(pattern, "strided") ? 2 : 1);
    if (rank == 0) printf("%lld bytes, %d at the end\n", total, at_end);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    state = strtoull(argv[3], NULL, 10);
    write_and_read(argv[1], argv[2], atoi(argv[4]));
    for (int i = 5; i + 1 < argc; i += 2) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", argv[1], (i - 3) / 2);
        write_and_read(name, argv[i], atoi(argv[i + 1]));
    }
    MPI_Finalize();
    return 0;
}
