/* The functions of the library's Rust part (src/ffi.rs, where each function is described). No MPI here. */
#ifndef FOREBAY_MPIIO_CORE_H
#define FOREBAY_MPIIO_CORE_H

#include <stddef.h>
#include <stdint.h>

typedef struct fb_flat fb_flat;
typedef struct fb_file fb_file;
typedef struct fb_beside fb_beside;

/* Results: done, to be made by MPI, or an errno. */
enum { FB_DONE = 0, FB_PASS = -1 };

struct fb_message {
    int peer;
    void *bytes;
    size_t len;
};

struct fb_calls {
    int (*all_gather)(void *context, const void *own, void *all, size_t len);
    int (*all_max)(void *context, int64_t *values, size_t count);
    int (*broadcast)(void *context, void *bytes, size_t len);
    int (*begin)(void *context, size_t sends, const struct fb_message *to, size_t receives,
                 const struct fb_message *from, void **request);
    int (*finish)(void *context, void *request);
};

/* Pieces of a type that are taken apart; as PIECES_MAX in src/flat.rs. */
enum { FB_PIECES_MAX = 4 << 20 };

struct fb_piece {
    int64_t offset;
    uint64_t len;
};

struct fb_block {
    const fb_flat *of;
    uint64_t count;
    int64_t offset;
};

enum { FB_WHOLE = 0, FB_BLOCK = 1, FB_CYCLIC = 2 };

struct fb_dealt {
    uint64_t size, processes, argument;
    int distribution;
};

fb_flat *fb_flat_basic(const struct fb_piece *pieces, size_t count, int64_t extent);
fb_flat *fb_flat_blocks(const struct fb_block *blocks, size_t count, int64_t extent);
fb_flat *fb_flat_subarray(const fb_flat *of, const uint64_t (*dimensions)[3], size_t count, int is_fortran);
fb_flat *fb_flat_darray(const fb_flat *of, uint64_t rank, const struct fb_dealt *dimensions, size_t count,
                        int is_fortran);
uint64_t fb_flat_size(const fb_flat *flat);
void fb_flat_free(fb_flat *flat);

struct fb_opening {
    const char *name, *host, *hints;
    size_t hints_len;
    int reads, writes, deletes, has_threads, rank, size;
};

int fb_open(const struct fb_calls *calls, void *context, const struct fb_opening *opening, fb_file **file);
/* The file is deleted: so is the mark that it was incomplete. */
void fb_unmark(const char *name);
int fb_reads_hint(const char *name);
int fb_set_hints(fb_file *file, const char *hints, size_t len);
void fb_hints(const fb_file *file, size_t value_max, void (*tell)(void *context, const char *name, const char *value), void *context);
void fb_set_view(fb_file *file, int64_t displacement, uint64_t etype_bytes, fb_flat *tile);
int fb_write_collective(fb_file *file, uint64_t from, void *base, const fb_flat *layout, uint64_t elements,
                        int follows, uint64_t *done);
int fb_read_collective(fb_file *file, uint64_t from, void *base, const fb_flat *layout, uint64_t elements,
                       uint64_t *done);
int fb_write_without_waiting(fb_file *file, uint64_t from, void *base, const fb_flat *layout, uint64_t elements);

enum { FB_ETYPE_BYTES = 0, FB_UNITS_TO_END = 1, FB_HOLDS_WITHOUT_WAITING = 2, FB_MUST_WRITE_OWN = 3 };
uint64_t fb_ask(fb_file *file, int what);

enum { FB_FLUSH = 0, FB_WRITE_OWN = 1, FB_SYNC = 2, FB_ATOMIC = 3, FB_NOT_ATOMIC = 4, FB_LEAVE = 5, FB_PASSED = 6 };
int fb_do(fb_file *file, int step);
void fb_sized(fb_file *file, uint64_t size);

const fb_beside *fb_beside_of(fb_file *file);
int fb_beside_write(const fb_beside *beside);
int fb_beside_is_apart(const fb_beside *beside, uint64_t unit, uint64_t len);
uint64_t fb_beside_end(const fb_beside *beside);
void fb_beside_free(const fb_beside *beside);

struct fb_extent {
    uint64_t offset, len;
};

int fb_declare(fb_file *file, const struct fb_extent *extents, size_t count);
int fb_write_extent(fb_file *file, uint64_t offset, const void *bytes, size_t len);
int fb_read_extents(fb_file *file, const struct fb_extent *extents, void *const *buffers, size_t count, uint64_t *done);
size_t fb_explain(fb_file *file, char *text, size_t room);

int fb_close(fb_file *file);
/* Forgets a file that nothing was done with. Not collective. */
void fb_abandon(fb_file *file);

#endif
