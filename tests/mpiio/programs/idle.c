/* Lets the ranks of MPICH sleep where they wait for each other: preloaded, it stands before UCX. MPICH 4.0 asks it without an end and
 * never yields, so that of more ranks than processors the waiting ones keep the others from running (64 ranks on 2 processors: 3 s
 * instead of 28 s). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*next)(void *);
    if (!next) next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned events = next(worker);
    struct timespec moment = {0, 20000};
    if (!events) nanosleep(&moment, NULL);
    return events;
}
