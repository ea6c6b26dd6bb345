/* See files.h. */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"

static struct fb_open_file *files;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

struct fb_open_file *fb_look_up(MPI_File handle) {
    pthread_mutex_lock(&files_lock);
    struct fb_open_file *file = files;
    while (file && file->handle != handle) file = file->next;
    pthread_mutex_unlock(&files_lock);
    return file;
}

struct fb_open_file *fb_find(MPI_File handle) {
    struct fb_open_file *file = fb_look_up(handle);
    if (file) pthread_mutex_lock(&file->lock);
    return file;
}

struct fb_open_file *fb_try(MPI_File handle) {
    struct fb_open_file *file = fb_look_up(handle);
    return file && pthread_mutex_trylock(&file->lock) == 0 ? file : NULL;
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

/* A communicator of the library's own, which raises errors as the program's. Where there can be none (MPI has some thousands),
 * the program is not to hear of it. Collective; whether all ranks have it. */
static int own_comm(MPI_Comm comm, MPI_Comm *own) {
    MPI_Errhandler handler;
    if (MPI(Comm_get_errhandler)(comm, &handler) != MPI_SUCCESS) return 0;
    MPI(Comm_set_errhandler)(comm, fb_mpi.errors_return);
    int64_t failed = MPI(Comm_dup)(comm, own) != MPI_SUCCESS, has = !failed;
    int code = MPI(Allreduce)(MPI_IN_PLACE, &failed, 1, fb_mpi.int64, fb_mpi.max, comm);
    MPI(Comm_set_errhandler)(comm, handler);
    if (has) MPI(Comm_set_errhandler)(*own, handler);
    MPI(Errhandler_free)(&handler);
    if (code == MPI_SUCCESS && !failed) return 1;
    if (has) MPI(Comm_free)(own);
    return 0;
}

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
    int threads = MPI_THREAD_SINGLE;
    MPI(Query_thread)(&threads);
    opening.has_threads = threads == MPI_THREAD_MULTIPLE;
    char *hints = read_hints(info, &opening.hints_len);
    opening.hints = hints;
    int has_comm = own_comm(comm, &file->comm);
    if (has_comm) {
        MPI(Comm_rank)(file->comm, &opening.rank);
        MPI(Comm_size)(file->comm, &opening.size);
        fb_open(&fb_group_calls, &file->comm, &opening, &file->core);
    }
    free(hints);
    if (!file->core) {
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
    pthread_mutex_unlock(&files_lock);
}

int fb_give_hints(struct fb_open_file *file, MPI_Info info) {
    size_t len = 0;
    char *hints = read_hints(info, &len);
    int done = fb_set_hints(file->core, hints, len);
    free(hints);
    return done;
}

struct fb_open_file *fb_disown(MPI_File handle) {
    struct fb_open_file *file = fb_find(handle);
    if (!file) return NULL;
    pthread_mutex_lock(&files_lock);
    struct fb_open_file **at = &files;
    while (*at != file) at = &(*at)->next;
    *at = file->next;
    pthread_mutex_unlock(&files_lock);
    return file;
}

void fb_write_all_own(void) {
    pthread_mutex_lock(&files_lock);
    for (struct fb_open_file *file = files; file; file = file->next) {
        /* A call that is under way holds its file: its bytes are not ours to touch. */
        if (pthread_mutex_trylock(&file->lock) == 0) {
            fb_do(file->core, FB_LEAVE);
            pthread_mutex_unlock(&file->lock);
        }
    }
    pthread_mutex_unlock(&files_lock);
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
    MPI(File_call_errhandler)(handle, code);
    return code;
}
