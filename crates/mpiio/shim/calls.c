/* The handling of each MPI call. Kinds of calls are macros, since each has a form with int and one with MPI_Count:
 *
 * - a collective call goes to the Rust part, and to MPI only if that says so, on every rank;
 * - an independent call, and one with the shared file pointer, goes to MPI after what this rank holds was written;
 * - a collective call that orders ranks by the shared pointer goes to MPI after what all ranks hold was written;
 * - a non-blocking collective write is held without waiting for anybody, and is complete at once.
 *
 * MPI's own file pointer stays the truth: it is read before a call that is held and moved after it.
 */
#include "calls.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <stdlib.h>

#include "datatype.h"
#include "files.h"

enum direction { READ, WRITE };

static void set_status(MPI_Status *status, uint64_t bytes) {
    if (status == MPI_STATUS_IGNORE) return;
    MPI(Status_set_cancelled)(status, 0);
    MPI(Status_set_elements_x)(status, fb_mpi.byte, (MPI_Count)bytes);
}

/* Of an offset that no file has. */
#define NOWHERE UINT64_MAX

/* A collective call at a byte of the view. FB_DONE with its bytes and an errno (or 0) in *error, or FB_PASS with the errno that
 * the call has failed with, however MPI makes it. No error is raised here: the file is locked. */
static int collective(struct fb_open_file *file, enum direction direction, uint64_t from, const void *buf,
                      MPI_Count count, MPI_Datatype type, int *error, uint64_t *bytes) {
    fb_flat *layout = count < 0 || from == NOWHERE ? NULL : fb_flatten(type);
    *bytes = 0;
    int done = direction == READ ? fb_read_collective(file->core, from, (void *)buf, layout, (uint64_t)count, bytes)
                                 : fb_write_collective(file->core, from, (void *)buf, layout, (uint64_t)count,
                                                       fb_follows(file), bytes);
    if (direction == WRITE) fb_ends_write(file);
    fb_flat_free(layout);
    *error = done == FB_PASS ? (int)*bytes : done;
    return done == FB_PASS ? FB_PASS : FB_DONE;
}

/* The code of a call that MPI has made after an earlier error. */
static int after(MPI_File handle, int error, int code) { return code != MPI_SUCCESS ? code : fb_raise(handle, error); }

/* The same of a collective call: of a write the library hears that MPI has made it. */
static int after_passing(MPI_File handle, enum direction direction, int error, int code) {
    struct fb_open_file *file = code == MPI_SUCCESS && direction == WRITE ? fb_find(handle) : NULL;
    if (file) {
        fb_passed_write(file);
        fb_release(file);
    }
    return after(handle, error, code);
}

static uint64_t byte_of(struct fb_open_file *file, MPI_Offset offset) {
    uint64_t byte;
    return __builtin_mul_overflow((uint64_t)offset, fb_ask(file->core, FB_ETYPE_BYTES), &byte) ? NOWHERE : byte;
}

/* Where the file pointer of this rank is, as a byte of the view. */
static uint64_t position(struct fb_open_file *file) {
    MPI_Offset offset = 0;
    MPI(File_get_position)(file->handle, &offset);
    return byte_of(file, offset);
}

static void advance(struct fb_open_file *file, MPI_Count count, MPI_Datatype type) {
    MPI_Count size = 0;
    MPI(Type_size_x)(type, &size);
    MPI_Offset units = (MPI_Offset)(count * size / (MPI_Count)fb_ask(file->core, FB_ETYPE_BYTES));
    if (units > 0) MPI(File_seek)(file->handle, units, MPI_SEEK_CUR);
}

/* Places of calls that say none: the file pointer of the rank, or of all ranks. */
enum { AT_POINTER = -1, AT_SHARED_POINTER = -2 };

/* Whether a call of one rank alone touches nothing that the rank holds. */
static int is_apart(struct fb_open_file *file, MPI_Offset offset, MPI_Count count, MPI_Datatype type) {
    MPI_Count size = 0;
    uint64_t bytes;
    if (offset == AT_POINTER) MPI(File_get_position)(file->handle, &offset);
    if (offset < 0 || count < 0 || MPI(Type_size_x)(type, &size) != MPI_SUCCESS || size < 0) return 0;
    return !__builtin_mul_overflow((uint64_t)count, (uint64_t)size, &bytes) &&
           fb_beside_is_apart(file->beside, (uint64_t)offset, bytes);
}

/* Writes what this rank holds, before a call that it makes alone, without waiting for a collective call of another thread, unless
 * this is a write to the same bytes. An errno is that of bytes which were written earlier. */
static int write_own_before(MPI_File handle, enum direction direction, MPI_Offset offset, MPI_Count count, MPI_Datatype type) {
    struct fb_open_file *file = fb_look_up(handle);
    if (!file) return FB_DONE;
    if (pthread_mutex_trylock(&file->lock) != 0) {
        int goes_on = direction == READ || is_apart(file, offset, count, type);
        int done = goes_on ? fb_beside_write(file->beside) : FB_PASS;
        if (done != FB_PASS) return done;
        pthread_mutex_lock(&file->lock);
    }
    int done = fb_do(file->core, FB_WRITE_OWN);
    fb_release(file);
    return done;
}

static int write_own(MPI_File handle) { return write_own_before(handle, READ, 0, 0, fb_mpi.byte); }

/* Writes what all ranks hold. Collective. */
static int step(MPI_File handle, int what) {
    struct fb_open_file *file = fb_find(handle);
    if (!file) return MPI_SUCCESS;
    int done = fb_do(file->core, what);
    fb_release(file);
    return fb_raise(handle, done);
}

/* Collective calls at an offset, and at the file pointer. */
#define AT_ALL(form, count_type, name, direction, buffer)                                                              \
    int fb_##name##form(MPI_File fh, MPI_Offset offset, buffer buf, count_type count, MPI_Datatype type,               \
                        MPI_Status *status) {                                                                          \
        int error = 0;                                                                                                 \
        struct fb_open_file *file = offset < 0 ? NULL : fb_find(fh);                                                   \
        if (file) {                                                                                                    \
            uint64_t bytes;                                                                                            \
            int done = collective(file, direction, byte_of(file, offset), buf, count, type, &error, &bytes);           \
            fb_release(file);                                                                                          \
            if (done == FB_DONE) return set_status(status, bytes), fb_raise(fh, error);                                \
        }                                                                                                              \
        return after_passing(fh, direction, error, MPI(name##form)(fh, offset, buf, count, type, status));                                \
    }

#define ALL(form, count_type, name, direction, buffer)                                                                 \
    int fb_##name##form(MPI_File fh, buffer buf, count_type count, MPI_Datatype type, MPI_Status *status) {            \
        int error = 0;                                                                                                 \
        struct fb_open_file *file = fb_find(fh);                                                                       \
        if (file) {                                                                                                    \
            uint64_t bytes;                                                                                            \
            int done = collective(file, direction, position(file), buf, count, type, &error, &bytes);                  \
            if (done == FB_DONE) advance(file, count, type);                                                           \
            fb_release(file);                                                                                          \
            if (done == FB_DONE) return set_status(status, bytes), fb_raise(fh, error);                                \
        }                                                                                                              \
        return after_passing(fh, direction, error, MPI(name##form)(fh, buf, count, type, status));                                        \
    }

FB_FORMS(AT_ALL, File_write_at_all, WRITE, const void *)
FB_FORMS(AT_ALL, File_read_at_all, READ, void *)
FB_FORMS(ALL, File_write_all, WRITE, const void *)
FB_FORMS(ALL, File_read_all, READ, void *)

/* Split collective calls: all is done at the beginning, which MPI allows, and errors are those of the end. */
#define AT_ALL_BEGIN(form, count_type, name, direction, buffer)                                                        \
    int fb_##name##form(MPI_File fh, MPI_Offset offset, buffer buf, count_type count, MPI_Datatype type) {             \
        struct fb_open_file *file = offset < 0 ? NULL : fb_find(fh);                                                   \
        if (file) {                                                                                                    \
            int done = collective(file, direction, byte_of(file, offset), buf, count, type, &file->split_error,        \
                                  &file->split_bytes);                                                                 \
            file->split_is_ours = done == FB_DONE;                                                                     \
            fb_release(file);                                                                                          \
            if (done == FB_DONE) return MPI_SUCCESS;                                                                   \
        }                                                                                                              \
        return MPI(name##form)(fh, offset, buf, count, type);                                                          \
    }

#define ALL_BEGIN(form, count_type, name, direction, buffer)                                                           \
    int fb_##name##form(MPI_File fh, buffer buf, count_type count, MPI_Datatype type) {                                \
        struct fb_open_file *file = fb_find(fh);                                                                       \
        if (file) {                                                                                                    \
            int done = collective(file, direction, position(file), buf, count, type, &file->split_error,               \
                                  &file->split_bytes);                                                                 \
            file->split_is_ours = done == FB_DONE;                                                                     \
            if (done == FB_DONE) advance(file, count, type);                                                           \
            fb_release(file);                                                                                          \
            if (done == FB_DONE) return MPI_SUCCESS;                                                                   \
        }                                                                                                              \
        return MPI(name##form)(fh, buf, count, type);                                                                  \
    }

#define END(name, direction, buffer)                                                                                              \
    int fb_##name(MPI_File fh, buffer buf, MPI_Status *status) {                                                       \
        int error = 0;                                                                                                 \
        struct fb_open_file *file = fb_find(fh);                                                                       \
        if (file) {                                                                                                    \
            int is_ours = file->split_is_ours;                                                                         \
            uint64_t bytes = file->split_bytes;                                                                        \
            error = file->split_error;                                                                                 \
            file->split_is_ours = file->split_error = 0;                                                               \
            fb_release(file);                                                                                          \
            if (is_ours) return set_status(status, bytes), fb_raise(fh, error);                                        \
        }                                                                                                              \
        return after_passing(fh, direction, error, MPI(name)(fh, buf, status));                                                           \
    }

FB_FORMS(AT_ALL_BEGIN, File_write_at_all_begin, WRITE, const void *)
FB_FORMS(AT_ALL_BEGIN, File_read_at_all_begin, READ, void *)
FB_FORMS(ALL_BEGIN, File_write_all_begin, WRITE, const void *)
FB_FORMS(ALL_BEGIN, File_read_all_begin, READ, void *)
END(File_write_at_all_end, WRITE, const void *)
END(File_read_at_all_end, READ, void *)
END(File_write_all_end, WRITE, const void *)
END(File_read_all_end, READ, void *)
END(File_write_ordered_end, READ, const void *)
END(File_read_ordered_end, READ, void *)

/* Calls of one rank, or with the shared file pointer. After an error MPI makes them all the same, so that the error is that of earlier
 * bytes alone; but for those of which the program would not wait for the request. */
#define INDEPENDENT_AT(form, count_type, name, direction, buffer, result, is_done)                                     \
    int fb_##name##form(MPI_File fh, MPI_Offset offset, buffer buf, count_type count, MPI_Datatype type,               \
                        result *outcome) {                                                                             \
        int error = write_own_before(fh, direction, offset, count, type);                                              \
        if (error && !is_done) return fb_raise(fh, error);                                                             \
        return after(fh, error, MPI(name##form)(fh, offset, buf, count, type, outcome));                               \
    }

#define INDEPENDENT(form, count_type, name, direction, place, buffer, result, is_done)                                 \
    int fb_##name##form(MPI_File fh, buffer buf, count_type count, MPI_Datatype type, result *outcome) {               \
        int error = write_own_before(fh, direction, place, count, type);                                               \
        if (error && !is_done) return fb_raise(fh, error);                                                             \
        return after(fh, error, MPI(name##form)(fh, buf, count, type, outcome));                                       \
    }

FB_FORMS(INDEPENDENT_AT, File_write_at, WRITE, const void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT_AT, File_read_at, READ, void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT_AT, File_iwrite_at, WRITE, const void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT_AT, File_iread_at, READ, void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT_AT, File_iread_at_all, READ, void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT, File_write, WRITE, AT_POINTER, const void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT, File_read, READ, AT_POINTER, void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT, File_iwrite, WRITE, AT_POINTER, const void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT, File_iread, READ, AT_POINTER, void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT, File_iread_all, READ, AT_POINTER, void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT, File_write_shared, WRITE, AT_SHARED_POINTER, const void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT, File_read_shared, READ, AT_SHARED_POINTER, void *, MPI_Status, 1)
FB_FORMS(INDEPENDENT, File_iwrite_shared, WRITE, AT_SHARED_POINTER, const void *, MPI_Request, 0)
FB_FORMS(INDEPENDENT, File_iread_shared, READ, AT_SHARED_POINTER, void *, MPI_Request, 0)

/* Calls in the order of the ranks. */
#define ORDERED(form, count_type, name, buffer)                                                                        \
    int fb_##name##form(MPI_File fh, buffer buf, count_type count, MPI_Datatype type, MPI_Status *status) {            \
        int code = step(fh, FB_FLUSH);                                                                                 \
        return code != MPI_SUCCESS ? code : MPI(name##form)(fh, buf, count, type, status);                             \
    }

#define ORDERED_BEGIN(form, count_type, name, buffer)                                                                  \
    int fb_##name##form(MPI_File fh, buffer buf, count_type count, MPI_Datatype type) {                                \
        int code = step(fh, FB_FLUSH);                                                                                 \
        return code != MPI_SUCCESS ? code : MPI(name##form)(fh, buf, count, type);                                     \
    }

FB_FORMS(ORDERED, File_write_ordered, const void *)
FB_FORMS(ORDERED, File_read_ordered, void *)
FB_FORMS(ORDERED_BEGIN, File_write_ordered_begin, const void *)
FB_FORMS(ORDERED_BEGIN, File_read_ordered_begin, void *)

/* A request that is complete from the beginning: the bytes are held, and the program's buffer is its own again. */
static int query(void *bytes, MPI_Status *status) {
    set_status(status, *(uint64_t *)bytes);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int free_bytes(void *bytes) {
    free(bytes);
    return MPI_SUCCESS;
}

static int cancel(void *bytes, int is_complete) {
    (void)bytes, (void)is_complete;
    return MPI_SUCCESS;
}

static int complete(uint64_t count, MPI_Request *request) {
    uint64_t *bytes = malloc(sizeof *bytes);
    if (!bytes) return MPI_ERR_NO_MEM;
    *bytes = count;
    int code = MPI(Grequest_start)(query, free_bytes, cancel, bytes, request);
    return code != MPI_SUCCESS ? code : MPI(Grequest_complete)(*request);
}

/* Holds a write of this rank. FB_PASS if MPI is to make it as an independent call, or FB_DONE with an MPI code in *code, or an errno
 * in *error. */
static int hold(struct fb_open_file *file, uint64_t from, const void *buf, MPI_Count count, MPI_Datatype type, int *code,
                int *error, MPI_Request *request) {
    fb_flat *layout = count < 0 || from == NOWHERE ? NULL : fb_flatten(type);
    int done = fb_write_without_waiting(file->core, from, (void *)buf, layout, (uint64_t)count);
    uint64_t bytes = layout ? fb_flat_size(layout) * (uint64_t)count : 0;
    fb_flat_free(layout);
    if (done == FB_PASS) return FB_PASS;
    *error = done;
    *code = done == FB_DONE ? complete(bytes, request) : MPI_SUCCESS;
    return FB_DONE;
}

#define IWRITE_AT_ALL(form, count_type)                                                                                \
    int fb_File_iwrite_at_all##form(MPI_File fh, MPI_Offset offset, const void *buf, count_type count,                 \
                                    MPI_Datatype type, MPI_Request *request) {                                         \
        struct fb_open_file *file = offset < 0 ? NULL : fb_find(fh);                                                   \
        if (!file) return MPI(File_iwrite_at_all##form)(fh, offset, buf, count, type, request);                        \
        int code, error, holds = (int)fb_ask(file->core, FB_HOLDS_WITHOUT_WAITING);                                             \
        int done = holds ? hold(file, byte_of(file, offset), buf, count, type, &code, &error, request) : FB_PASS;      \
        fb_release(file);                                                                                              \
        if (done == FB_DONE) return after(fh, error, code);                                                            \
        return holds ? MPI(File_iwrite_at##form)(fh, offset, buf, count, type, request)                                \
                     : MPI(File_iwrite_at_all##form)(fh, offset, buf, count, type, request);                           \
    }

#define IWRITE_ALL(form, count_type)                                                                                   \
    int fb_File_iwrite_all##form(MPI_File fh, const void *buf, count_type count, MPI_Datatype type,                    \
                                 MPI_Request *request) {                                                               \
        struct fb_open_file *file = fb_find(fh);                                                                       \
        if (!file) return MPI(File_iwrite_all##form)(fh, buf, count, type, request);                                   \
        int code, error, holds = (int)fb_ask(file->core, FB_HOLDS_WITHOUT_WAITING);                                             \
        int done = holds ? hold(file, position(file), buf, count, type, &code, &error, request) : FB_PASS;             \
        if (done == FB_DONE) advance(file, count, type);                                                               \
        fb_release(file);                                                                                              \
        if (done == FB_DONE) return after(fh, error, code);                                                            \
        return holds ? MPI(File_iwrite##form)(fh, buf, count, type, request)                                           \
                     : MPI(File_iwrite_all##form)(fh, buf, count, type, request);                                      \
    }

FB_FORMS(IWRITE_AT_ALL)
FB_FORMS(IWRITE_ALL)

/* The file as such. */
int fb_File_open(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *fh) {
    int code = MPI(File_open)(comm, name, amode, info, fh);
    if (code == MPI_SUCCESS && !(amode & MPI_MODE_SEQUENTIAL)) fb_adopt(comm, name, amode, info, *fh);
    return code;
}

int fb_File_close(MPI_File *fh) {
    struct fb_open_file *file = fb_find(*fh);
    if (!file) return MPI(File_close)(fh);
    int done = fb_close(file->core);
    fb_disown(file);
    MPI(Comm_free)(&file->comm);
    fb_free(file);
    int code = fb_raise(*fh, done), closed = MPI(File_close)(fh);
    return code != MPI_SUCCESS ? code : closed;
}

int fb_File_delete(const char *name, MPI_Info info) {
    int code = MPI(File_delete)(name, info);
    if (code == MPI_SUCCESS) fb_unmark(name);
    return code;
}

int fb_File_sync(MPI_File fh) {
    int code = step(fh, FB_SYNC), synced = MPI(File_sync)(fh);
    return code != MPI_SUCCESS ? code : synced;
}

int fb_File_set_size(MPI_File fh, MPI_Offset size) {
    int code = step(fh, FB_FLUSH);
    if (code != MPI_SUCCESS) return code;
    code = MPI(File_set_size)(fh, size);
    struct fb_open_file *file = code == MPI_SUCCESS ? fb_find(fh) : NULL;
    if (file) {
        fb_sized(file->core, (uint64_t)size);
        fb_release(file);
    }
    return code;
}

int fb_File_preallocate(MPI_File fh, MPI_Offset size) {
    int code = step(fh, FB_FLUSH);
    return code != MPI_SUCCESS ? code : MPI(File_preallocate)(fh, size);
}

/* The size counts what is held: every rank knows the end of what all have written together. */
int fb_File_get_size(MPI_File fh, MPI_Offset *size) {
    int code = fb_raise(fh, write_own(fh));
    if (code == MPI_SUCCESS) code = MPI(File_get_size)(fh, size);
    struct fb_open_file *file = code == MPI_SUCCESS ? fb_look_up(fh) : NULL;
    if (file) {
        MPI_Offset end = (MPI_Offset)fb_beside_end(file->beside);
        if (*size < end) *size = end;
    }
    return code;
}

/* And so does the end that a file pointer is set to. */
int fb_File_seek(MPI_File fh, MPI_Offset offset, int whence) {
    if (whence == MPI_SEEK_END) fb_count_call();
    int code = whence == MPI_SEEK_END ? fb_raise(fh, write_own(fh)) : MPI_SUCCESS;
    if (code != MPI_SUCCESS) return code;
    MPI_Offset end = 0, held = 0;
    struct fb_open_file *file = whence == MPI_SEEK_END ? fb_try(fh) : NULL;
    if (file) {
        held = (MPI_Offset)fb_ask(file->core, FB_UNITS_TO_END);
        fb_release(file);
        code = MPI(File_seek)(fh, 0, MPI_SEEK_END);
        if (code == MPI_SUCCESS) code = MPI(File_get_position)(fh, &end);
        if (code != MPI_SUCCESS) return code;
    }
    return held > end ? MPI(File_seek)(fh, held + offset, MPI_SEEK_SET) : MPI(File_seek)(fh, offset, whence);
}

int fb_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence) {
    int code = whence == MPI_SEEK_END ? step(fh, FB_FLUSH) : MPI_SUCCESS;
    return code != MPI_SUCCESS ? code : MPI(File_seek_shared)(fh, offset, whence);
}

int fb_File_set_view(MPI_File fh, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                     const char *representation, MPI_Info info) {
    int code = MPI(File_set_view)(fh, displacement, etype, filetype, representation, info);
    /* Also a rank whose view MPI refuses, since the others may wait for it. */
    int done = fb_give_hints(fh, info);
    struct fb_open_file *file = fb_find(fh);
    if (file && code == MPI_SUCCESS) {
        MPI_Count etype_bytes = 0;
        MPI(Type_size_x)(etype, &etype_bytes);
        /* Other representations than memory's are MPI's business. */
        fb_flat *tile = strcasecmp(representation, "native") == 0 ? fb_flatten(filetype) : NULL;
        fb_set_view(file->core, displacement, (uint64_t)etype_bytes, tile);
    }
    if (file) fb_release(file);
    return code != MPI_SUCCESS || done == FB_DONE ? code : fb_raise(fh, done);
}

int fb_File_set_info(MPI_File fh, MPI_Info info) {
    int code = MPI(File_set_info)(fh, info), done = fb_give_hints(fh, info);
    return code != MPI_SUCCESS || done == FB_DONE ? code : fb_raise(fh, done);
}

static void tell_hint(void *info, const char *name, const char *value) { MPI(Info_set)(*(MPI_Info *)info, name, value); }

int fb_File_get_info(MPI_File fh, MPI_Info *info) {
    int code = MPI(File_get_info)(fh, info);
    /* While another thread has the file, MPI's hints are all. */
    struct fb_open_file *file = code == MPI_SUCCESS ? fb_try(fh) : NULL;
    if (file) {
        fb_hints(file->core, MPI_MAX_INFO_VAL - 1, tell_hint, info);
        fb_release(file);
    }
    return code;
}

int fb_File_set_atomicity(MPI_File fh, int flag) {
    int code = step(fh, flag ? FB_ATOMIC : FB_NOT_ATOMIC), set = MPI(File_set_atomicity)(fh, flag);
    return code != MPI_SUCCESS ? code : set;
}

/* Programs that end without closing: what they wrote is in the file, as it would be without this library. */
int fb_Finalize(void) {
    fb_write_all_own(0);
    /* Callbacks of the program's attributes run in it, and may close files. */
    int was_outside = fb_outside(1), code = MPI(Finalize)();
    fb_outside(was_outside);
    return code;
}

/* A program that aborts does not wait long for a file system that hangs. */
enum { ABORT_MAX_S = 5 };

int fb_Abort(MPI_Comm comm, int code) {
    fb_write_all_own(ABORT_MAX_S);
    return MPI(Abort)(comm, code);
}
