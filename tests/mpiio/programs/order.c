/* order FILE CASE [FIRST LAST]: ranks write the same bytes one after the other, with as little between as programs leave: a barrier, a
 * message, another handle. MPI's letter wants more, but plain MPI-IO over POSIX files does not, and HDF5 and PnetCDF rely on that.
 * Each case is repeated until calls that follow each other are held, and checks what it has written.
 *
 * barrier      all write zeros over the neighbour's block, barrier, each writes its own block by itself
 * message      the same with messages round the ranks instead of the barrier
 * test         the same with a persistent message that is started, and tested for
 * shared       the same with a window of memory in place of messages
 * handles      the same with a second handle on the file (MPI_COMM_SELF) for what each writes by itself
 * own          each writes its own block collectively, and parts of it again by itself, without anything between
 * collective   all write over the neighbour's block by another collective call, without anything between
 * view         each sets a view between the collective call and the one by itself, and a barrier is that of MPI_File_set_view
 * random       programs by seed, FIRST to LAST - 1: collective, independent, barrier, message; each into a part of FILE of its own */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1000, CALLS = 6, ROUNDS = 3 };
static int rank, ranks;
static MPI_File fh;
static unsigned char bytes[64 * BLOCK];
static int is_wrong;

#define CHECK(call) ((call) == MPI_SUCCESS ? (void)0 : fail(#call, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "rank %d, line %d: %s\n", rank, line, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_file(const char *name) {
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
}

/* Where the part of a round begins, and in it the blocks of a call, one a rank. */
static MPI_Offset place(int round, int call, int block) {
    return (((MPI_Offset)round * CALLS + call) * ranks + block % ranks) * BLOCK;
}

static void write_all(MPI_Offset at, int value) {
    memset(bytes, value, BLOCK);
    CHECK(MPI_File_write_at_all(fh, at, bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void write_alone(MPI_File file, MPI_Offset at, int value, int len) {
    memset(bytes, value, len);
    CHECK(MPI_File_write_at(file, at, bytes, len, MPI_BYTE, MPI_STATUS_IGNORE));
}

static int value_of(int round, int call, int block) { return 1 + (round * 31 + call * 7 + block % ranks) % 250; }

/* Zeros over the neighbour's blocks, by calls that follow each other. */
static void write_zeros(int round) {
    for (int call = 0; call < CALLS; call++) write_all(place(round, call, rank + 1), 0);
}

/* Every second rank first, so that a rank that still holds zeros has a neighbour that has written. */
static void write_own(MPI_File file, int round) {
    for (int turn = 1; turn >= 0; turn--) {
        for (int call = 0; call < CALLS && rank % 2 == turn; call++)
            write_alone(file, place(round, call, rank), value_of(round, call, rank), BLOCK);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void pass_message(void) {
    int token = 0, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    /* Round the ranks twice: after the first time the last rank knows that all have come, after the second all know. */
    for (int turn = 0; turn < 2; turn++) {
        if (rank > 0 || turn > 0) CHECK(MPI_Recv(&token, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (rank < ranks - 1 || turn == 0) CHECK(MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD));
    }
}

/* Every rank hears from every other one, by persistent requests. */
static void test_message(void) {
    static int out[64], in[64];
    MPI_Request requests[128];
    MPI_Status statuses[128];
    int done = 0;
    for (int i = 0; i < ranks; i++) {
        CHECK(MPI_Send_init(&out[i], 1, MPI_INT, i, 1, MPI_COMM_WORLD, &requests[i]));
        CHECK(MPI_Recv_init(&in[i], 1, MPI_INT, i, 1, MPI_COMM_WORLD, &requests[ranks + i]));
    }
    write_zeros(0);
    CHECK(MPI_Startall(2 * ranks, requests));
    while (!done) CHECK(MPI_Testall(2 * ranks, requests, &done, statuses));
    for (int i = 0; i < 2 * ranks; i++) CHECK(MPI_Request_free(&requests[i]));
    write_own(fh, 0);
}

/* Every rank puts a mark into the memory of every other, and waits for those of all. */
static void shared_memory(void) {
    MPI_Win window;
    volatile int *marks;
    int one = 1;
    CHECK(MPI_Win_allocate((MPI_Aint)(ranks * sizeof *marks), sizeof *marks, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&marks, &window));
    memset((void *)marks, 0, ranks * sizeof *marks);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Win_lock_all(0, window));
    write_zeros(0);
    for (int i = 0; i < ranks; i++) CHECK(MPI_Accumulate(&one, 1, MPI_INT, i, rank, 1, MPI_INT, MPI_REPLACE, window));
    CHECK(MPI_Win_flush_all(window));
    for (int i = 0; i < ranks; i++) {
        int seen = 0;
        while (!seen) {
            CHECK(MPI_Fetch_and_op(NULL, &seen, MPI_INT, rank, i, MPI_NO_OP, window));
            CHECK(MPI_Win_flush(rank, window));
        }
    }
    write_own(fh, 0);
    CHECK(MPI_Win_unlock_all(window));
    CHECK(MPI_Win_free(&window));
}

static void check_own(int round) {
    for (int call = 0; call < CALLS; call++) {
        unsigned char expected = (unsigned char)value_of(round, call, rank);
        CHECK(MPI_File_read_at(fh, place(round, call, rank), bytes, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < BLOCK; i++) {
            if (bytes[i] != expected) {
                fprintf(stderr, "rank %d: round %d, call %d, byte %d is %d instead of %d\n", rank, round, call, i, bytes[i], expected);
                /* To the end all the same: a launcher loses what a job prints that it ends. */
                is_wrong = 1;
                return;
            }
        }
    }
}

static void rounds(void (*between)(void), MPI_File alone) {
    for (int round = 0; round < ROUNDS; round++) {
        write_zeros(round);
        between();
        write_own(alone, round);
    }
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void view(void) { CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL)); }

static void handles(const char *name) {
    MPI_File own;
    CHECK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &own));
    rounds(barrier, own);
    CHECK(MPI_File_close(&own));
}

/* A rank's own bytes are in the order of its calls, whoever writes them. */
static void own_again(void) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int call = 0; call < CALLS; call++) write_all(place(round, call, rank), 255);
        for (int call = 0; call < CALLS; call++) {
            write_alone(fh, place(round, call, rank), value_of(round, call, rank), BLOCK / 2);
            write_all(place(round, call, rank) + BLOCK / 2, value_of(round, call, rank));
            write_alone(fh, place(round, call, rank) + BLOCK / 2, value_of(round, call, rank), BLOCK / 2);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        /* The last call of each block went beyond it. */
        write_own(fh, round);
    }
}

static void collective_again(void) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int call = 0; call < CALLS; call++) write_all(place(round, call, rank + ranks - 1), 0);
        for (int call = 0; call < CALLS; call++) write_all(place(round, call, rank), value_of(round, call, rank));
    }
}

/* Random programs. All ranks draw the same numbers. */
static unsigned long long state;
static int next(int below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % below);
}

enum { PART = 8192, STEPS = 40 };

/* The expected contents of a part of the file: the bytes of the steps one after the other. A byte that two ranks may have written in any order
 * is written only after a step that orders them: `writer` is the rank whose write the others cannot yet rely on, or -1. */
static unsigned char model[PART];
static signed char writer[PART];

static void settle(void) { memset(writer, -1, sizeof writer); }

/* Whether a rank may write these bytes now. */
static int may_write(int who, int from, int len) {
    for (int i = from; i < from + len; i++) {
        if (writer[i] >= 0 && writer[i] != who) return 0;
    }
    return 1;
}

static void note(int who, int from, int len, int value) {
    memset(model + from, value, len);
    memset(writer + from, who, len);
}

/* A collective call of pieces, side by side or spread, of which ranks have different ones. Calls are in order by themselves. */
static void step_collective(MPI_Offset part, int value) {
    int len = 1 + next(60), gap = next(3) ? 0 : next(40), shift = next(ranks), spread = next(2);
    int pitch = len + gap, pieces = spread ? 1 + next(4) : 1, start = next(PART - pitch * pieces * ranks), before = 0;
    /* Independent bytes of other ranks must have been ordered before. */
    for (int i = 0; i < ranks; i++) {
        for (int piece = 0; piece < pieces; piece++) {
            int from = start + (piece * ranks + (i + shift) % ranks) * pitch;
            for (int at = from; at < from + len; at++) before |= writer[at] >= 0 && writer[at] < 64 && writer[at] != i;
        }
    }
    if (before) {
        MPI_Barrier(MPI_COMM_WORLD);
        settle();
    }
    int lens[8], places[8];
    for (int piece = 0; piece < pieces; piece++) {
        lens[piece] = len;
        places[piece] = start + (piece * ranks + (rank + shift) % ranks) * pitch;
    }
    memset(bytes, value + rank, sizeof bytes / 16);
    if (pieces == 1) {
        CHECK(MPI_File_write_at_all(fh, part + places[0], bytes, len, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        MPI_Datatype tile;
        MPI_Type_indexed(pieces, lens, places, MPI_BYTE, &tile);
        MPI_Type_commit(&tile);
        CHECK(MPI_File_set_view(fh, part, MPI_BYTE, tile, "native", MPI_INFO_NULL));
        CHECK(MPI_File_write_all(fh, bytes, len * pieces, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        MPI_Type_free(&tile);
        settle();
    }
    for (int i = 0; i < ranks; i++) {
        for (int piece = 0; piece < pieces; piece++) {
            /* A later collective call comes after it, whoever makes it; a call of one rank, only of the same rank. */
            note(i, start + (piece * ranks + (i + shift) % ranks) * pitch, len, value + i);
        }
    }
    if (pieces > 1) settle();
}

static void step_alone(MPI_Offset part, int value) {
    int who = next(ranks), len = 1 + next(200), from = next(PART - len);
    if (!may_write(who, from, len)) {
        MPI_Barrier(MPI_COMM_WORLD);
        settle();
    }
    if (rank == who) write_alone(fh, part + from, value, len);
    note(who, from, len, value);
}

static void step_message(void) {
    int from = next(ranks), to = next(ranks), token = 0;
    if (from == to) return;
    if (rank == from) CHECK(MPI_Send(&token, 1, MPI_INT, to, 2, MPI_COMM_WORLD));
    if (rank == to) CHECK(MPI_Recv(&token, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    /* The second may write over the bytes of the first: as if it had written it itself. */
    for (int i = 0; i < PART; i++) {
        if (writer[i] == from) writer[i] = (signed char)to;
    }
}

static void random_program(int seed, MPI_Offset part) {
    state = (unsigned long long)seed * 0x9e3779b97f4a7c15ull + 1;
    next(2);
    memset(model, 0, sizeof model);
    settle();
    int calls = 0;
    /* ROMIO writes into holes beyond the end of a file whatever its buffers have. */
    if (rank == 0) CHECK(MPI_File_write_at(fh, part, model, PART, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < STEPS; step++) {
        int kind = next(10), value = 1 + (seed + step * 5) % 240;
        if (kind < 6) {
            /* Runs of calls, so that they are held. */
            for (calls = 1 + next(6); calls > 0; calls--) step_collective(part, value);
        } else if (kind < 8) step_alone(part, value);
        else if (kind < 9) step_message();
        else {
            MPI_Barrier(MPI_COMM_WORLD);
            settle();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    unsigned char *found = calloc(1, PART);
    /* By each rank once in so many programs. */
    if (seed % ranks == rank) {
        CHECK(MPI_File_read_at(fh, part, found, PART, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < PART; i++) {
            if (found[i] != model[i]) {
                fprintf(stderr, "seed %d: byte %d is %d instead of %d\n", seed, i, found[i], model[i]);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    free(found);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *name = argv[1], *way = argv[2];
    int checked = ROUNDS;
    open_file(name);
    if (!strcmp(way, "barrier")) rounds(barrier, fh);
    else if (!strcmp(way, "message")) rounds(pass_message, fh);
    else if (!strcmp(way, "test")) test_message(), checked = 1;
    else if (!strcmp(way, "shared")) shared_memory(), checked = 1;
    else if (!strcmp(way, "handles")) handles(name);
    else if (!strcmp(way, "own")) own_again();
    else if (!strcmp(way, "collective")) collective_again();
    else if (!strcmp(way, "view")) rounds(view, fh);
    else if (!strcmp(way, "random")) {
        int first = atoi(argv[3]), last = atoi(argv[4]);
        checked = 0;
        for (int seed = first; seed < last; seed++) random_program(seed, (MPI_Offset)(seed - first) * PART);
        if (rank == 0) printf("%d programs\n", last - first);
    } else fail("no such case", __LINE__);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < checked; round++) check_own(round);
    CHECK(MPI_File_close(&fh));
    MPI_Finalize();
    return is_wrong;
}
