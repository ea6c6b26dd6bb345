/* corners FILE CASE: what few programs do, one thing a case. Prints what MPI says of it, rank by rank (by the first rank, since a
 * launcher may mix what ranks print). */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 5000, READS = 2000, BLOCKS = 50000000, RESIDENT_KB_MAX = 1200000 };
static int rank, ranks;
static char buf[N];
static const char *name;
static MPI_File fh;

static void print(const char *what) {
    char line[64] = "", *lines = calloc(ranks, sizeof line);
    snprintf(line, sizeof line, "%s", what);
    MPI_Gather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks; i++) printf("%s\n", lines + i * sizeof line);
    free(lines);
}

static void open_file(int mode) { MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &fh); }

static void write_own_part(void) {
    MPI_File_write_at_all(fh, (MPI_Offset)rank * N, buf, N, MPI_BYTE, MPI_STATUS_IGNORE);
}

static long long size_of_file(void) {
    MPI_Offset size = -1;
    MPI_File_get_size(fh, &size);
    return size;
}

/* A read past the end does not make the file longer; the end is behind what all ranks have written. */
static void ends(void) {
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (rank == 0) MPI_File_write_at(fh, 0, buf, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(fh), MPI_Barrier(MPI_COMM_WORLD), MPI_File_sync(fh);
    MPI_File_read_at_all(fh, 0, buf, N, MPI_BYTE, MPI_STATUS_IGNORE);
    long long before = size_of_file();
    memset(buf, 'a' + rank, N);
    write_own_part();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset at = 0;
    MPI_File_seek(fh, -10, MPI_SEEK_END);
    MPI_File_get_position(fh, &at);
    char line[64];
    snprintf(line, sizeof line, "%lld %lld", before, (long long)at);
    print(line);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&fh);
}

/* The error handler of the program asks the file for things. */
static int heard;

static void handler(MPI_File *file, int *code, ...) {
    MPI_Offset size;
    MPI_Info info;
    (void)code;
    if (MPI_File_get_size(*file, &size) != MPI_SUCCESS || MPI_File_get_info(*file, &info) != MPI_SUCCESS) abort();
    MPI_Info_free(&info);
    heard++;
}

static void handles(void) {
    MPI_Errhandler own;
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_create_errhandler(handler, &own);
    MPI_File_set_errhandler(fh, own);
    int len = 2000000;
    char *large = calloc(1, len);
    for (int i = 0; i < 4; i++) MPI_File_write_at_all(fh, (MPI_Offset)(i * ranks + rank) * len, large, len, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_at_all_begin(fh, (MPI_Offset)rank * len, large, len, MPI_BYTE);
    MPI_File_write_at_all_end(fh, large, MPI_STATUS_IGNORE);
    MPI_File_close(&fh);
    free(large);
    MPI_Errhandler_free(&own);
    print(heard > 0 ? "heard" : "heard nothing");
}

/* A type of more pieces than anybody takes apart, of which none is written. MPI itself takes 16 bytes for each. */
static void huge(void) {
    MPI_Datatype type;
    struct rusage used;
    MPI_Type_vector(BLOCKS, 1, 2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_write_at_all(fh, 0, buf, 0, type, MPI_STATUS_IGNORE);
    write_own_part();
    MPI_File_close(&fh);
    MPI_Type_free(&type);
    getrusage(RUSAGE_SELF, &used);
    print(used.ru_maxrss < RESIDENT_KB_MAX ? "small" : "large");
}

/* The first rank has nothing, and a view to match. */
static void empty(void) {
    MPI_Datatype nothing;
    MPI_Type_indexed(0, NULL, NULL, MPI_BYTE, &nothing);
    MPI_Type_commit(&nothing);
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_set_view(fh, 0, MPI_BYTE, rank ? MPI_BYTE : nothing, "native", MPI_INFO_NULL);
    for (int i = 0; i < 3; i++)
        MPI_File_write_at_all(fh, (MPI_Offset)(3 * rank + i) * N, buf, rank ? N : 0, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&fh);
    MPI_Type_free(&nothing);
}

/* Written under another name, which is changed before the file is closed; and nobody may open it any more. */
static void renamed(void) {
    char other[4096];
    const char *final = name;
    snprintf(other, sizeof other, "%s.part", name);
    name = other;
    umask(0377);
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_own_part();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && rename(other, final) != 0) abort();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&fh);
    if (rank == 0) chmod(final, 0600);
}

/* Units times offset beyond what a number holds: MPI is to say what it makes of that. */
static void beyond(void) {
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_own_part();
    MPI_File_set_view(fh, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    memset(buf, 'z', N);
    MPI_File_write_at_all(fh, (MPI_Offset)1 << 61, buf, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&fh);
}

/* A thread of the first rank is in a collective call that waits for the second rank, which waits for what another thread of the first
 * rank does by itself. */
static int is_in_call;

static void *collective(void *nothing) {
    __atomic_store_n(&is_in_call, 1, __ATOMIC_RELEASE);
    MPI_File_sync(fh);
    return nothing;
}

static void threads(void) {
    char back[10] = "";
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_own_part();
    if (rank == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, collective, NULL);
        while (!__atomic_load_n(&is_in_call, __ATOMIC_ACQUIRE)) usleep(100);
        /* So many that most are made during the call. */
        for (int i = 0; i < READS; i++) {
            MPI_File_read_at(fh, N - 10, back, 10, MPI_BYTE, MPI_STATUS_IGNORE);
            if (memcmp(back, buf, 10) != 0 || size_of_file() < N) abort();
        }
        MPI_Send(back, 10, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        pthread_join(thread, NULL);
    } else {
        if (rank == 1) MPI_Recv(back, 10, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_File_sync(fh);
    }
    MPI_File_close(&fh);
}

/* The library's list of aggregators is no longer than a value may be. */
static void information(void) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int is_there = 0;
    MPI_Info holds;
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    write_own_part();
    MPI_File_sync(fh);
    MPI_File_get_info(fh, &holds);
    MPI_Info_get(holds, "forebay_aggregator_list", MPI_MAX_INFO_VAL, value, &is_there);
    if (rank == 0) printf("%s\n", value);
    MPI_Info_free(&holds);
    MPI_File_close(&fh);
}

/* Communicators run out: MPI has one left for the file, and none for anybody else. */
static void communicators(void) {
    enum { MOST = 1 << 16 };
    static MPI_Comm all[MOST];
    int count = 0, opened = MPI_ERR_OTHER;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (count < MOST && MPI_Comm_dup(MPI_COMM_WORLD, &all[count]) == MPI_SUCCESS) count++;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    print(count < MOST ? "none left" : "some left");
    while (count > 0 && opened != MPI_SUCCESS) {
        MPI_Comm_free(&all[--count]);
        opened = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh);
    }
    write_own_part();
    MPI_File_close(&fh);
    while (count > 0) MPI_Comm_free(&all[--count]);
}

/* Ends without closing, on a file system without room. */
static void leaves(void) {
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    int len = 2000000;
    MPI_File_write_at_all(fh, (MPI_Offset)rank * len, calloc(1, len), len, MPI_BYTE, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"ends", ends},       {"handles", handles}, {"huge", huge},       {"empty", empty},
             {"renamed", renamed}, {"beyond", beyond},   {"threads", threads}, {"information", information},
             {"leaves", leaves},   {"communicators", communicators}};

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, !strcmp(argv[2], "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(buf, 'a' + rank % 26, N);
    name = argv[1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(argv[2], cases[i].name)) cases[i].run();
    }
    MPI_Finalize();
    return 0;
}
