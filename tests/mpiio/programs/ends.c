/* ends FILE HOW: collective writes that follow each other, so that they are held, and an end of the program before the file is closed:
 * exit      by exit(), without MPI_Finalize
 * return    by MPI_Finalize, without closing
 * abort     by MPI_Abort
 * kill      by a signal that no process hears, directly
 * compute   the same, after a time without MPI calls in which everything has come into the file; each rank then makes FILE.seen-RANK
 * child     a child process ends by exit() while its parent holds bytes, and the parent closes the file */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 5000, CALLS = 6, PATIENCE_S = 60 };

static int rank, ranks;

/* Without an MPI call. */
static int comes(const char *name) {
    struct stat found = {0};
    for (time_t start = time(NULL); time(NULL) < start + PATIENCE_S; usleep(1000)) {
        if (stat(name, &found) == 0 && found.st_size == (off_t)CALLS * ranks * N) return 1;
    }
    return 0;
}

/* In a file: a launcher may lose what a rank printed before it was killed. */
static void say_seen(const char *name) {
    char seen[4096];
    snprintf(seen, sizeof seen, "%s.seen-%d", name, rank);
    FILE *made = fopen(seen, "w");
    if (made) fclose(made);
}

int main(int argc, char **argv) {
    static char buf[N];
    MPI_File fh;
    const char *how = argv[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(buf, 'a' + rank, N);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh);
    for (int call = 0; call < CALLS; call++) {
        MPI_File_write_at_all(fh, (MPI_Offset)(call * ranks + rank) * N, buf, N, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "compute")) {
        if (comes(argv[1])) say_seen(argv[1]);
        /* A launcher ends the other ranks when one is killed. */
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    if (!strcmp(how, "child")) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) exit(0);
        waitpid(child, &status, 0);
        struct stat found = {0};
        /* The child had nothing to write. */
        if (status == 0 && stat(argv[1], &found) == 0) printf("%lld bytes\n", (long long)found.st_size);
        MPI_File_close(&fh);
    }
    MPI_Finalize();
    return 0;
}
