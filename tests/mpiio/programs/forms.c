/* forms FILE PARTS: every form of MPI-IO's calls on one file, so that what each leaves can be compared with what MPI leaves, and
 * what each reads with what was written. PARTS are letters: b blocking, s split, n non-blocking, l large counts, m size and
 * modes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))
#define CHECK(call) EXPECT((call) == MPI_SUCCESS)

static void fail(const char *what, int line);

enum { N = 1000 };
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

static void expect_own(int i) {
    MPI_Status status;
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

static void blocking(void) {
    MPI_Status status;
    fill(0), CHECK(MPI_File_write_at_all(fh, place(0), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(1), CHECK(MPI_File_write_at(fh, place(1), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    CHECK(MPI_File_seek(fh, place(2), MPI_SEEK_SET));
    fill(2), CHECK(MPI_File_write_all(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    expect_position(place(2) + N);
    CHECK(MPI_File_seek(fh, place(3), MPI_SEEK_SET));
    fill(3), CHECK(MPI_File_write(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    expect_position(place(3) + N);
    /* A rank reads what it has just written, held or not. */
    for (int i = 0; i < 4; i++) expect_own(i);
    CHECK(MPI_File_seek_shared(fh, (MPI_Offset)4 * ranks * N, MPI_SEEK_SET));
    fill(4), CHECK(MPI_File_write_ordered(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(5), CHECK(MPI_File_write_ordered_begin(fh, buf, N, MPI_BYTE));
    CHECK(MPI_File_write_ordered_end(fh, buf, &status)), expect_count(&status, N);
    expect_own(4), expect_own(5);
}

static void split(void) {
    MPI_Status status;
    fill(6), CHECK(MPI_File_write_at_all_begin(fh, place(6), buf, N, MPI_BYTE));
    CHECK(MPI_File_write_at_all_end(fh, buf, &status)), expect_count(&status, N);
    CHECK(MPI_File_seek(fh, place(7), MPI_SEEK_SET));
    fill(7), CHECK(MPI_File_write_all_begin(fh, buf, N, MPI_BYTE));
    CHECK(MPI_File_write_all_end(fh, buf, &status)), expect_count(&status, N);
    expect_position(place(7) + N);
    memset(got, 0, N), CHECK(MPI_File_read_at_all_begin(fh, place(6), got, N, MPI_BYTE));
    CHECK(MPI_File_read_at_all_end(fh, got, &status)), expect_count(&status, N);
    fill(6), EXPECT(!memcmp(buf, got, N));
    CHECK(MPI_File_seek(fh, place(7), MPI_SEEK_SET));
    memset(got, 0, N), CHECK(MPI_File_read_all_begin(fh, got, N, MPI_BYTE));
    CHECK(MPI_File_read_all_end(fh, got, &status)), expect_count(&status, N);
    fill(7), EXPECT(!memcmp(buf, got, N));
    expect_position(place(7) + N);
}

static void wait_for(MPI_Request *request) {
    MPI_Status status;
    CHECK(MPI_Wait(request, &status));
    expect_count(&status, N);
}

static void non_blocking(void) {
    MPI_Request request;
    fill(8), CHECK(MPI_File_iwrite_at(fh, place(8), buf, N, MPI_BYTE, &request)), wait_for(&request);
    fill(9), CHECK(MPI_File_iwrite_at_all(fh, place(9), buf, N, MPI_BYTE, &request)), wait_for(&request);
    CHECK(MPI_File_seek(fh, place(10), MPI_SEEK_SET));
    fill(10), CHECK(MPI_File_iwrite(fh, buf, N, MPI_BYTE, &request)), wait_for(&request);
    CHECK(MPI_File_seek(fh, place(11), MPI_SEEK_SET));
    fill(11), CHECK(MPI_File_iwrite_all(fh, buf, N, MPI_BYTE, &request)), wait_for(&request);
    expect_position(place(11) + N);
    memset(got, 0, N), CHECK(MPI_File_iread_at(fh, place(9), got, N, MPI_BYTE, &request)), wait_for(&request);
    fill(9), EXPECT(!memcmp(buf, got, N));
    memset(got, 0, N), CHECK(MPI_File_iread_at_all(fh, place(11), got, N, MPI_BYTE, &request)), wait_for(&request);
    fill(11), EXPECT(!memcmp(buf, got, N));
    CHECK(MPI_File_seek(fh, place(8), MPI_SEEK_SET));
    memset(got, 0, N), CHECK(MPI_File_iread(fh, got, N, MPI_BYTE, &request)), wait_for(&request);
    fill(8), EXPECT(!memcmp(buf, got, N));
    CHECK(MPI_File_seek(fh, place(10), MPI_SEEK_SET));
    memset(got, 0, N), CHECK(MPI_File_iread_all(fh, got, N, MPI_BYTE, &request)), wait_for(&request);
    fill(10), EXPECT(!memcmp(buf, got, N));
}

static void large_counts(void) {
#if MPI_VERSION >= 4
    MPI_Status status;
    MPI_Request request;
    fill(12), CHECK(MPI_File_write_at_all_c(fh, place(12), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(13), CHECK(MPI_File_write_at_c(fh, place(13), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    CHECK(MPI_File_seek(fh, place(14), MPI_SEEK_SET));
    fill(14), CHECK(MPI_File_write_all_c(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(15), CHECK(MPI_File_iwrite_at_all_c(fh, place(15), buf, N, MPI_BYTE, &request)), wait_for(&request);
    memset(got, 0, N), CHECK(MPI_File_read_at_all_c(fh, place(15), got, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(15), EXPECT(!memcmp(buf, got, N));
    for (int i = 12; i < 16; i++) expect_own(i);
#endif
}

/* What the file as such is asked while bytes are held. */
static void size_and_modes(void) {
    MPI_Offset size, end = (MPI_Offset)17 * ranks * N;
    MPI_Info info;
    MPI_Status status;
    fill(16), CHECK(MPI_File_write_at_all(fh, place(16), buf, N, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_get_size(fh, &size)), EXPECT(size == end);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_size(fh, end + 5)), CHECK(MPI_File_get_size(fh, &size)), EXPECT(size == end + 5);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_size(fh, end));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_atomicity(fh, 1));
    fill(17), CHECK(MPI_File_write_at_all(fh, place(17), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    /* Atomic: another rank sees it without a sync. */
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % ranks;
    CHECK(MPI_File_read_at(fh, ((MPI_Offset)17 * ranks + other) * N, got, N, MPI_BYTE, &status));
    EXPECT(got[0] == 'a' + (17 * 7 + other) % 26 && got[N - 1] == got[0]);
    CHECK(MPI_File_set_atomicity(fh, 0));
    fill(18), CHECK(MPI_File_write_at_all(fh, place(18), buf, N, MPI_BYTE, &status));
    CHECK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_sync(fh));
    CHECK(MPI_File_read_at(fh, ((MPI_Offset)18 * ranks + other) * N, got, N, MPI_BYTE, &status));
    EXPECT(got[0] == 'a' + (18 * 7 + other) % 26);
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
    if (strchr(argv[2], 'l')) large_counts();
    if (strchr(argv[2], 'm')) size_and_modes();
    wrong_calls();
    /* The last calls are held when the file is closed. */
    fill(19), CHECK(MPI_File_write_at_all(fh, place(19), buf, N, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(MPI_File_close(&fh));
    MPI_Finalize();
    return 0;
}
