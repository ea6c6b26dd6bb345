/* The effects of signals on a program on a view. The handler is installed with SA_RESTART, as profilers and MPI libraries do.

   signals each DIRECTORY COUNT: a signal every millisecond; stat of the file in COUNT directories, then open of the file
   in as many others. Prints how many calls of each kind failed with EINTR, and otherwise, and how many signals came.

   signals wait quiet|alarm|threads FILE: says "waiting" and asks for one file, with the signals of the timer ("alarm"),
   without, or beside another thread. Prints the error. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void start_timer(void)
{
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}};

    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void *idle(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static int stat_it(const char *path)
{
    struct stat found;
    return stat(path, &found);
}

static int open_it(const char *path)
{
    int file = open(path, O_RDONLY);
    return file < 0 ? -1 : close(file);
}

static void each(const char *directory, const char *kind, int (*call)(const char *), int number)
{
    int interrupted = 0, failed = 0;
    char path[4096];

    for (int at = 0; at < number; at++) {
        snprintf(path, sizeof path, "%s/%s-%d/file", directory, kind, at);
        if (call(path) < 0)
            errno == EINTR ? interrupted++ : failed++;
    }
    printf("%s %d %d\n", kind, interrupted, failed);
}

int main(int count_of_words, char **words)
{
    pthread_t other;

    if (count_of_words != 4)
        return 2;
    if (!strcmp(words[1], "each")) {
        start_timer();
        each(words[2], "stat", stat_it, atoi(words[3]));
        each(words[2], "open", open_it, atoi(words[3]));
        printf("signals %d\n", (int)signals);
        return 0;
    }
    if (!strcmp(words[2], "alarm"))
        start_timer();
    if (!strcmp(words[2], "threads") && pthread_create(&other, NULL, idle, NULL) != 0)
        return 2;
    puts("waiting");
    fflush(stdout);
    puts(stat_it(words[3]) < 0 ? strerror(errno) : "found");
    return 0;
}
