/* The files that are open, and what every call on one has in common. */
#ifndef FOREBAY_MPIIO_FILES_H
#define FOREBAY_MPIIO_FILES_H

#include <pthread.h>

#include "core.h"
#include "mpi_table.h"

/* A file of the program that the library looks after. Calls on it take the lock: with MPI_THREAD_MULTIPLE there may be
 * several, and of collective ones the program itself sees to it that there is one at a time. A call of one rank alone does not
 * wait for a collective one, which waits for other ranks (`beside`). The lock is never held while an error handler of the
 * program runs, since that may make calls on the file. */
struct fb_open_file {
    MPI_File handle;
    /* The library's own, and the one by which the ranks talk: while the file is opened, that is the program's. */
    MPI_Comm comm, *talks_by;
    fb_file *core;
    const fb_beside *beside;
    pthread_mutex_t lock;
    /* A split collective call that has begun here and not ended. */
    int split_is_ours, split_error;
    uint64_t split_bytes;
    /* When held bytes are to be written at the latest, 0 if none must be written before another MPI call; and how many such calls
     * the program had made, and when, at the end of the last collective write. */
    int64_t due_ms, last_ms;
    uint64_t last_call;
    struct fb_open_file *next;
};

/* The file of a handle, locked; NULL for one that is MPI's alone. */
struct fb_open_file *fb_find(MPI_File handle);

/* The same, or NULL while another thread has it. */
struct fb_open_file *fb_try(MPI_File handle);

/* The same, not locked: its core is not to be touched. */
struct fb_open_file *fb_look_up(MPI_File handle);

/* Unlocks. */
void fb_release(struct fb_open_file *file);

/* Looks after a file that MPI has opened, unless hints say otherwise. Collective. */
void fb_adopt(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File handle);

/* Hints for a file that is open; MPI has taken them already. To be called by all ranks. 0 or an errno. */
int fb_give_hints(MPI_File handle, MPI_Info info);

/* Ends that. The file is locked, and in no list afterwards; until then what it holds is written where the program ends. */
void fb_disown(struct fb_open_file *file);

/* Unlocks a file that is in no list, and forgets it. */
void fb_free(struct fb_open_file *file);

/* Whether a collective write, which begins now, follows the last one of the file with nothing between. The file is locked. */
int fb_follows(const struct fb_open_file *file);

/* That collective write ends now, and may have left bytes held. The file is locked. */
void fb_ends_write(struct fb_open_file *file);

/* MPI has made a collective write, and it ends now. The file is locked. */
void fb_passed_write(struct fb_open_file *file);

/* Writes what this rank must have written before another MPI call, of every file but the one of a handle. */
void fb_let_go(const void *but);

/* The program makes another MPI call. */
void fb_count_call(void);

/* Whether the program's code runs now (a handler), so that MPI calls of this thread are the program's; returns what was. */
int fb_outside(int is_outside);

/* Writes what this rank holds of any file: the program ends without closing. It waits for another thread's write for so many seconds
 * at most, or as long as that takes if it is 0; bytes that are left out then are named by the mark. */
void fb_write_all_own(int wait_max_s);

/* An MPI error class for an errno; raised by the file's error handler where the program has set one. 0 is success. Not to be called
 * with a file locked. */
int fb_raise(MPI_File handle, int errno_code);

#endif
