/* forms FILE PARTS: every form of MPI-IO's calls on one file, so that what each leaves can be compared with what MPI leaves, and
 * what each reads with what was written. PARTS are letters: b blocking, s split, n non-blocking, o with the shared file pointer, the
 * same in capitals with large counts, m size and modes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))
#define CHECK(call) EXPECT((call) == MPI_SUCCESS)

static void fail(const char *what, int line);

/* Forms have numbers: those with large counts from LARGE on, those of the file as such from MODES on. */
enum { N = 1000, LARGE = 40, MODES = 80 };
static int rank, ranks;
static MPI_File fh;
static char buf[N], got[N];

static void fail(const char *what, int line) {
    fprintf(stderr, "rank %d, line %d: %s\n", rank, line, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(int seed) { memset(buf, 'a' + (seed * 7 + rank) % 26, N); }

static void expect_count(MPI_Status *status, int n) {
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT(count == n);
}

/* The place of form i's bytes of this rank: forms do not share any. */
static MPI_Offset place(int i) { return ((MPI_Offset)i * ranks + rank) * N; }

/* A rank may be back from a collective call of Open MPI's own I/O before its aggregator has written the rank's bytes. */
static void settle(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void expect_own(int i) {
    MPI_Status status;
    settle();
    fill(i);
    memset(got, 0, N);
    CHECK(MPI_File_read_at(fh, place(i), got, N, MPI_BYTE, &status));
    expect_count(&status, N);
    EXPECT(!memcmp(buf, got, N));
}

/* The value of the individual file pointer. */
static void expect_position(MPI_Offset position) {
    MPI_Offset at;
    CHECK(MPI_File_get_position(fh, &at));
    EXPECT(at == position);
}

static void expect_read(int i) {
    fill(i);
    EXPECT(!memcmp(buf, got, N));
}

static void wait_for(MPI_Request *request) {
    MPI_Status status;
    CHECK(MPI_Wait(request, &status));
    expect_count(&status, N);
}

/* Bytes that may be held while the next call is made, which reads them: those of form i. */
static void hold(int i) {
    fill(i), CHECK(MPI_File_write_at_all(fh, place(i), buf, N, MPI_BYTE, MPI_STATUS_IGNORE));
    settle();
}

static void seek_shared(int i) { CHECK(MPI_File_seek_shared(fh, (MPI_Offset)i * ranks * N, MPI_SEEK_SET)); }

/* The following calls are made by one rank after the other. */
#define IN_TURN for (int turn = 0; turn < ranks; turn++, MPI_Barrier(MPI_COMM_WORLD)) if (turn == rank)

#define FORM(name) MPI_File_##name
#define PART(name) name
#define FIRST 0
#include "forms_of_calls.h"
#if MPI_VERSION >= 4
#undef FORM
#undef PART
#undef FIRST
#define FORM(name) MPI_File_##name##_c
#define PART(name) large_##name
#define FIRST LARGE
#include "forms_of_calls.h"
#endif

/* The queries of a file's size and modes while bytes are held. */
static void size_and_modes(void) {
    MPI_Offset size, end = (MPI_Offset)(MODES + 1) * ranks * N;
    MPI_Info info;
    MPI_Status status;
    fill(MODES + 0), CHECK(MPI_File_write_at_all(fh, place(MODES + 0), buf, N, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_get_size(fh, &size)), EXPECT(size == end);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_size(fh, end + 5)), CHECK(MPI_File_get_size(fh, &size)), EXPECT(size == end + 5);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_size(fh, end));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_atomicity(fh, 1));
    fill(MODES + 1), CHECK(MPI_File_write_at_all(fh, place(MODES + 1), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    /* Atomic: another rank sees it without a sync. */
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % ranks;
    CHECK(MPI_File_read_at(fh, ((MPI_Offset)(MODES + 1) * ranks + other) * N, got, N, MPI_BYTE, &status));
    EXPECT(got[0] == 'a' + ((MODES + 1) * 7 + other) % 26 && got[N - 1] == got[0]);
    CHECK(MPI_File_set_atomicity(fh, 0));
    fill(MODES + 2), CHECK(MPI_File_write_at_all(fh, place(MODES + 2), buf, N, MPI_BYTE, &status));
    CHECK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_sync(fh));
    CHECK(MPI_File_read_at(fh, ((MPI_Offset)(MODES + 2) * ranks + other) * N, got, N, MPI_BYTE, &status));
    EXPECT(got[0] == 'a' + ((MODES + 2) * 7 + other) % 26);
    CHECK(MPI_File_get_info(fh, &info));
    MPI_Info_free(&info);
}

/* Wrong calls get the error that MPI gives, and harm nothing. */
static void wrong_calls(void) {
    EXPECT(MPI_File_write_at_all(fh, 0, buf, -1, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI_File other;
    EXPECT(MPI_File_open(MPI_COMM_WORLD, "/nowhere/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &other) != MPI_SUCCESS);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
    if (strchr(argv[2], 'b')) blocking();
    if (strchr(argv[2], 's')) split();
    if (strchr(argv[2], 'n')) non_blocking();
    if (strchr(argv[2], 'o')) shared();
#if MPI_VERSION >= 4
    if (strchr(argv[2], 'B')) large_blocking();
    if (strchr(argv[2], 'S')) large_split();
    if (strchr(argv[2], 'N')) large_non_blocking();
    if (strchr(argv[2], 'O')) large_shared();
#endif
    if (strchr(argv[2], 'm')) size_and_modes();
    wrong_calls();
    /* The last calls are held when the file is closed. */
    fill(MODES + 3), CHECK(MPI_File_write_at_all(fh, place(MODES + 3), buf, N, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(MPI_File_close(&fh));
    MPI_Finalize();
    return 0;
}
