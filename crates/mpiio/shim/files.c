/* See files.h. */
#include "files.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "group.h"

/* Held bytes are written by then at the latest: a program that is killed loses no more than it wrote in a second. */
enum { HELD_MAX_MS = 1000 };

/* A file's own lock may be taken before this one, and while this one is held it is only tried. */
static struct fb_open_file *files;
/* A signal handler may come while its thread has the lock: it is refused then, and does not wait for itself. */
static pthread_mutex_t files_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

/* Whether any file has bytes that must be written before another MPI call. */
static int must_write;
/* The process that opened the files. A child of fork() has copies of what it holds, which are not the child's to write. */
static pid_t owner;
static uint64_t calls;

static struct fb_open_file *in_list(MPI_File handle) {
    struct fb_open_file *file = files;
    while (file && file->handle != handle) file = file->next;
    return file;
}

struct fb_open_file *fb_look_up(MPI_File handle) {
    pthread_mutex_lock(&files_lock);
    struct fb_open_file *file = in_list(handle);
    pthread_mutex_unlock(&files_lock);
    return file;
}

struct fb_open_file *fb_find(MPI_File handle) {
    struct fb_open_file *file = fb_look_up(handle);
    if (file) pthread_mutex_lock(&file->lock);
    return file;
}

void fb_free(struct fb_open_file *file) {
    fb_beside_free(file->beside);
    pthread_mutex_unlock(&file->lock);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

struct fb_open_file *fb_try(MPI_File handle) {
    /* Not between two writes of the library's own thread, which has the list while it has a file. */
    pthread_mutex_lock(&files_lock);
    struct fb_open_file *file = in_list(handle);
    if (file && pthread_mutex_trylock(&file->lock) != 0) file = NULL;
    pthread_mutex_unlock(&files_lock);
    return file;
}

void fb_release(struct fb_open_file *file) { pthread_mutex_unlock(&file->lock); }

/* Names and values that the library reads, in turns; the length in *len. */
static char *read_hints(MPI_Info info, size_t *len) {
    int count = 0;
    *len = 0;
    if (info == fb_mpi.info_null || MPI(Info_get_nkeys)(info, &count) != MPI_SUCCESS || count == 0) return NULL;
    char *hints = malloc((size_t)count * (MPI_MAX_INFO_KEY + MPI_MAX_INFO_VAL + 2));
    for (int i = 0; hints && i < count; i++) {
        char name[MPI_MAX_INFO_KEY + 1] = "", value[MPI_MAX_INFO_VAL + 1] = "";
        int is_there = 0;
        if (MPI(Info_get_nthkey)(info, i, name) != MPI_SUCCESS || !fb_reads_hint(name)) continue;
        if (MPI(Info_get)(info, name, MPI_MAX_INFO_VAL, value, &is_there) != MPI_SUCCESS || !is_there) continue;
        memcpy(hints + *len, name, strlen(name) + 1);
        *len += strlen(name) + 1;
        memcpy(hints + *len, value, strlen(value) + 1);
        *len += strlen(value) + 1;
    }
    return hints;
}

#ifdef OPEN_MPI
/* Begins to make a communicator of the library's own, while the ranks agree on the file: MPI_Comm_dup takes several rounds of messages here.
 * It ends before the program makes another one, since two at a time may wait for each other (Open MPI 4.1.4). */
static int begin_own_comm(struct fb_open_file *file, MPI_Comm comm, MPI_Request *pending) {
    if (MPI(Comm_idup)(comm, &file->comm, pending) != MPI_SUCCESS) abort(); /* Without memory; the other ranks would wait. */
    return 1;
}

static int has_own_comm(MPI_Request *pending) { return MPI(Wait)(pending, MPI_STATUS_IGNORE) == MPI_SUCCESS; }
#else
/* Makes one. Where there can be none (MPICH has some thousands, and MPI_Wait would raise that as an error of the program's), the
 * program is not to hear of it. Whether all ranks have it. */
static int begin_own_comm(struct fb_open_file *file, MPI_Comm comm, MPI_Request *pending) {
    (void)pending;
    int64_t failed = MPI(Comm_dup)(comm, &file->comm) != MPI_SUCCESS, has = !failed;
    int code = MPI(Allreduce)(MPI_IN_PLACE, &failed, 1, fb_mpi.int64, fb_mpi.max, comm);
    if (code == MPI_SUCCESS && !failed) return 1;
    if (has) MPI(Comm_free)(&file->comm);
    return 0;
}

static int has_own_comm(MPI_Request *pending) {
    (void)pending;
    return 1;
}
#endif

void fb_adopt(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File handle) {
    struct fb_open_file *file = calloc(1, sizeof *file);
    if (!file) abort(); /* The other ranks would wait for this one. */
    char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int host_len = 0;
    MPI(Get_processor_name)(host, &host_len);
    struct fb_opening opening = {.name = name, .host = host};
    opening.reads = (amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR)) != 0;
    opening.writes = (amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0;
    opening.deletes = (amode & MPI_MODE_DELETE_ON_CLOSE) != 0;
    /* The library has a thread itself. */
    opening.has_threads = 1;
    char *hints = read_hints(info, &opening.hints_len);
    opening.hints = hints;
    /* The ranks agree by the program's communicator, of which all are in this call; errors on it are none of the program's. */
    MPI_Comm agreeing = comm;
    MPI_Errhandler handler;
    MPI_Request pending;
    MPI(Comm_get_errhandler)(comm, &handler);
    MPI(Comm_set_errhandler)(comm, fb_mpi.errors_return);
    MPI(Comm_rank)(comm, &opening.rank);
    MPI(Comm_size)(comm, &opening.size);
    file->talks_by = &agreeing;
    int has_comm = begin_own_comm(file, comm, &pending);
    if (has_comm) fb_open(&fb_group_calls, &file->talks_by, &opening, &file->core);
    has_comm = has_comm && has_own_comm(&pending);
    MPI(Comm_set_errhandler)(comm, handler);
    if (has_comm) MPI(Comm_set_errhandler)(file->comm, handler);
    MPI(Errhandler_free)(&handler);
    free(hints);
    file->talks_by = &file->comm;
    if (!file->core || !has_comm) {
        if (file->core) fb_abandon(file->core);
        if (has_comm) MPI(Comm_free)(&file->comm);
        free(file);
        return;
    }
    file->handle = handle;
    file->beside = fb_beside_of(file->core);
    pthread_mutex_init(&file->lock, NULL);
    pthread_mutex_lock(&files_lock);
    file->next = files;
    files = file;
    owner = getpid();
    pthread_mutex_unlock(&files_lock);
}

int fb_give_hints(MPI_File handle, MPI_Info info) {
    struct fb_open_file *file = fb_find(handle);
    if (!file) return FB_DONE;
    size_t len = 0;
    char *hints = read_hints(info, &len);
    int done = fb_set_hints(file->core, hints, len);
    free(hints);
    fb_release(file);
    return done;
}

void fb_disown(struct fb_open_file *file) {
    pthread_mutex_lock(&files_lock);
    struct fb_open_file **at = &files;
    while (*at != file) at = &(*at)->next;
    *at = file->next;
    pthread_mutex_unlock(&files_lock);
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void fb_count_call(void) { __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); }

int fb_follows(const struct fb_open_file *file) {
    return file->last_ms && file->last_call == __atomic_load_n(&calls, __ATOMIC_RELAXED) && now_ms() - file->last_ms < HELD_MAX_MS;
}

/* Writes what a file holds. The list of files is locked. Whether that is done. */
static int write_own(struct fb_open_file *file) {
    if (pthread_mutex_trylock(&file->lock) == 0) {
        /* An error is kept, and told to all ranks when they next write together. */
        fb_do(file->core, FB_WRITE_OWN);
        __atomic_store_n(&file->due_ms, 0, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&file->lock);
        return 1;
    }
    /* A call of another thread has the file, and forgets nothing that it has not written. */
    fb_beside_write(file->beside);
    return 0;
}

/* The same of all files whose bytes are due, but one. When the next are due, or 0. */
static int64_t write_due(int64_t at_ms, const void *but) {
    int64_t next = 0;
    int are_left = 0;
    for (struct fb_open_file *file = files; file; file = file->next) {
        int64_t due = __atomic_load_n(&file->due_ms, __ATOMIC_RELAXED);
        if (due && (due > at_ms || (but && (const void *)file->handle == but) || !write_own(file))) {
            are_left = 1;
            /* A file that another thread's call has is looked at again. */
            due = due > at_ms ? due : at_ms + HELD_MAX_MS / 10;
            if (!next || due < next) next = due;
        }
    }
    __atomic_store_n(&must_write, are_left, __ATOMIC_RELEASE);
    return next;
}

/* In a child of fork() what is held is the parent's to write. */
static int is_parents(void) { return owner != getpid(); }

void fb_let_go(const void *but) {
    if (!__atomic_load_n(&must_write, __ATOMIC_ACQUIRE) || is_parents()) return;
    if (pthread_mutex_lock(&files_lock) != 0) return;
    write_due(INT64_MAX - HELD_MAX_MS, but);
    pthread_mutex_unlock(&files_lock);
}

static pthread_cond_t something_is_held;

/* Writes what is held for too long, and makes no MPI call. */
static void *write_late(void *nothing) {
    pthread_mutex_lock(&files_lock);
    for (;;) {
        int64_t now = now_ms(), next = write_due(now, NULL);
        if (next) {
            struct timespec until = {next / 1000, next % 1000 * 1000000};
            pthread_cond_timedwait(&something_is_held, &files_lock, &until);
        } else {
            pthread_cond_wait(&something_is_held, &files_lock);
        }
    }
    return nothing;
}

/* Without a thread nothing must be held. */
static int has_thread;

static void start_thread(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&something_is_held, &attributes);
    /* Signals are the program's, and handled by its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    has_thread = pthread_create(&thread, NULL, write_late, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (has_thread) pthread_detach(thread);
}

void fb_ends_write(struct fb_open_file *file) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t held_ms = fb_ask(file->core, FB_MUST_WRITE_OWN);
    file->last_ms = now_ms();
    file->last_call = __atomic_load_n(&calls, __ATOMIC_RELAXED);
    int64_t due = held_ms ? file->last_ms - (int64_t)(held_ms - 1) + HELD_MAX_MS : 0;
    int64_t was = __atomic_exchange_n(&file->due_ms, due, __ATOMIC_RELAXED);
    if (!due) return;
    pthread_once(&once, start_thread);
    if (!has_thread) {
        fb_do(file->core, FB_WRITE_OWN);
        __atomic_store_n(&file->due_ms, 0, __ATOMIC_RELAXED);
        return;
    }
    if (was) return;
    pthread_mutex_lock(&files_lock);
    __atomic_store_n(&must_write, 1, __ATOMIC_RELEASE);
    pthread_cond_signal(&something_is_held);
    pthread_mutex_unlock(&files_lock);
}

void fb_passed_write(struct fb_open_file *file) {
    fb_do(file->core, FB_PASSED);
    if (file->last_ms) file->last_ms = now_ms();
}

void fb_write_all_own(int wait_max_s) {
    if (!files || is_parents()) return;
    /* The library's own thread may be writing to a file system that hangs. */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_max_s;
    int failed = wait_max_s ? pthread_mutex_timedlock(&files_lock, &until) : pthread_mutex_lock(&files_lock);
    if (failed) return;
    for (struct fb_open_file *file = files; file; file = file->next) {
        if (pthread_mutex_trylock(&file->lock) == 0) {
            fb_do(file->core, FB_LEAVE);
            pthread_mutex_unlock(&file->lock);
        } else {
            /* A call that is under way holds its file. */
            fb_beside_write(file->beside);
        }
    }
    pthread_mutex_unlock(&files_lock);
}

/* The program ends by exit(), or returns from main, without MPI_Finalize. */
__attribute__((destructor)) static void write_at_exit(void) {
    fb_write_all_own(0);
}

static int error_class(int errno_code) {
    switch (errno_code) {
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case EROFS: return MPI_ERR_READ_ONLY;
    case EACCES:
    case EPERM: return MPI_ERR_ACCESS;
    case ENOENT: return MPI_ERR_NO_SUCH_FILE;
    case ENOMEM: return MPI_ERR_NO_MEM;
    case ESTALE: return MPI_ERR_FILE;
    case EINVAL: return MPI_ERR_ARG;
    default: return MPI_ERR_IO;
    }
}

int fb_raise(MPI_File handle, int errno_code) {
    if (errno_code == 0) return MPI_SUCCESS;
    int code = error_class(errno_code);
    int was_outside = fb_outside(1);
    MPI(File_call_errhandler)(handle, code);
    fb_outside(was_outside);
    return code;
}
