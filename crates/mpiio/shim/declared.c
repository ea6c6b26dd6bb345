/* The C interface, include/forebay_mpiio.h: MPI's open and close, and between them extents that the program declares. Where
 * hints leave a file to MPI, or the program runs under another MPI than this library's, calls are plain MPI ones. */
#include "../../../include/forebay_mpiio.h"

#include <stdlib.h>

#include "calls.h"
#include "files.h"

#define PUBLIC __attribute__((visibility("default")))

/* A read that the next flush makes. */
struct asked {
    struct fb_extent extent;
    void *bytes;
    MPI_Offset *there;
};

struct forebay_mpiio {
    MPI_File handle;
    struct asked *asked;
    size_t asked_count, asked_room;
};

/* As any MPI call: these send messages, too. */
static void begin(void) {
    fb_let_go(NULL);
    fb_count_call();
}

PUBLIC int forebay_mpiio_open(MPI_Comm comm, const char *path, int amode, MPI_Info info, forebay_mpiio **file) {
    if (!fb_is_ours()) return MPI_ERR_UNSUPPORTED_OPERATION;
    *file = calloc(1, sizeof **file);
    if (!*file) return MPI_ERR_NO_MEM;
    begin();
    int code = fb_File_open(comm, path, amode, info, &(*file)->handle);
    if (code != MPI_SUCCESS) {
        free(*file);
        *file = NULL;
    }
    return code;
}

PUBLIC int forebay_mpiio_open_f(MPI_Fint comm, const char *path, int amode, MPI_Fint info, forebay_mpiio **file) {
    if (!fb_is_ours()) return MPI_ERR_UNSUPPORTED_OPERATION;
    return forebay_mpiio_open(FB_COMM_F2C(comm), path, amode, FB_INFO_F2C(info), file);
}

PUBLIC int forebay_mpiio_declare(forebay_mpiio *file, int count, const MPI_Offset *offsets, const MPI_Offset *lengths) {
    begin();
    struct fb_open_file *open = fb_find(file->handle);
    if (!open) return MPI_SUCCESS;
    /* Wrong numbers are those of one rank, and the others go on: they declare nothing, and the writes are refused. */
    struct fb_extent *extents = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *extents);
    size_t valid = 0;
    for (int i = 0; extents && i < count; i++) {
        if (offsets[i] >= 0 && lengths[i] > 0 && offsets[i] <= INT64_MAX - lengths[i])
            extents[valid++] = (struct fb_extent){(uint64_t)offsets[i], (uint64_t)lengths[i]};
    }
    int done = fb_declare(open->core, extents, valid);
    fb_release(open);
    free(extents);
    return fb_raise(file->handle, done);
}

PUBLIC int forebay_mpiio_write(forebay_mpiio *file, MPI_Offset offset, const void *bytes, MPI_Offset length) {
    if (offset < 0 || length < 0 || offset > INT64_MAX - length) return MPI_ERR_ARG;
    begin();
    struct fb_open_file *open = fb_find(file->handle);
    if (open) {
        int done = fb_write_extent(open->core, (uint64_t)offset, bytes, (size_t)length);
        fb_release(open);
        return fb_raise(file->handle, done);
    }
    for (MPI_Offset at = 0; at < length;) {
        int len = length - at < (1 << 30) ? (int)(length - at) : 1 << 30;
        int code = MPI(File_write_at)(file->handle, offset + at, (const char *)bytes + at, len, fb_mpi.byte, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return code;
        at += len;
    }
    return MPI_SUCCESS;
}

PUBLIC int forebay_mpiio_read(forebay_mpiio *file, MPI_Offset offset, void *bytes, MPI_Offset length, MPI_Offset *there) {
    if (offset < 0 || length < 0 || offset > INT64_MAX - length) return MPI_ERR_ARG;
    if (there) *there = 0;
    if (length == 0) return MPI_SUCCESS;
    if (file->asked_count == file->asked_room) {
        size_t room = 2 * file->asked_room + 8;
        struct asked *asked = realloc(file->asked, room * sizeof *asked);
        if (!asked) return MPI_ERR_NO_MEM;
        file->asked = asked;
        file->asked_room = room;
    }
    file->asked[file->asked_count++] = (struct asked){{(uint64_t)offset, (uint64_t)length}, bytes, there};
    return MPI_SUCCESS;
}

/* The reads that were asked for, by aggregators. */
static int read_asked(forebay_mpiio *file, struct fb_open_file *open) {
    size_t count = file->asked_count;
    struct fb_extent *extents = calloc(count + 1, sizeof *extents);
    void **buffers = calloc(count + 1, sizeof *buffers);
    uint64_t *done = calloc(count + 1, sizeof *done);
    if (!extents || !buffers || !done) abort(); /* The other ranks would wait for this one. */
    for (size_t i = 0; i < count; i++) {
        extents[i] = file->asked[i].extent;
        buffers[i] = file->asked[i].bytes;
    }
    int code = fb_read_extents(open->core, extents, buffers, count, done);
    for (size_t i = 0; i < count; i++) {
        if (file->asked[i].there) *file->asked[i].there = (MPI_Offset)done[i];
    }
    free(extents);
    free(buffers);
    free(done);
    return code;
}

static int read_plainly(forebay_mpiio *file) {
    for (size_t i = 0; i < file->asked_count; i++) {
        struct asked *asked = &file->asked[i];
        for (uint64_t at = 0; at < asked->extent.len;) {
            uint64_t left = asked->extent.len - at;
            int len = left < (1 << 30) ? (int)left : 1 << 30, got = 0;
            MPI_Status status;
            int code = MPI(File_read_at)(file->handle, (MPI_Offset)(asked->extent.offset + at), (char *)asked->bytes + at, len,
                                         fb_mpi.byte, &status);
            if (code != MPI_SUCCESS) return code;
            MPI(Get_count)(&status, fb_mpi.byte, &got);
            if (asked->there) *asked->there += got;
            if (got < len) break;
            at += (uint64_t)got;
        }
    }
    return MPI_SUCCESS;
}

PUBLIC int forebay_mpiio_flush(forebay_mpiio *file) {
    begin();
    struct fb_open_file *open = fb_find(file->handle);
    int code;
    if (open) {
        int done = read_asked(file, open);
        fb_release(open);
        code = done == FB_PASS ? read_plainly(file) : fb_raise(file->handle, done);
    } else {
        code = read_plainly(file);
    }
    file->asked_count = 0;
    return code;
}

PUBLIC size_t forebay_mpiio_explain(forebay_mpiio *file, char *text, size_t room) {
    struct fb_open_file *open = fb_find(file->handle);
    if (!open) {
        if (room > 0) *text = 0;
        return 1;
    }
    size_t needed = fb_explain(open->core, text, room);
    fb_release(open);
    return needed;
}

PUBLIC int forebay_mpiio_finalise(forebay_mpiio *file) {
    int code = forebay_mpiio_flush(file), closed = fb_File_close(&file->handle);
    free(file->asked);
    free(file);
    return code != MPI_SUCCESS ? code : closed;
}
