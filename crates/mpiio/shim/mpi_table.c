/* Finds the program's MPI. See mpi_table.h. */
#include "mpi_table.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fb_mpi fb_mpi;

/* The library that has MPI, where it is not among those that every library sees (Python's extension modules). */
static void *handle = RTLD_NEXT;

enum { VERSION_BYTES = 16384 }; /* MPICH says up to 8 KiB. */

static int find_library(struct dl_phdr_info *library, size_t size, void *found) {
    (void)size;
    if (!strstr(library->dlpi_name, "libmpi")) return 0;
    void *opened = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!opened || !dlsym(opened, "PMPI_File_open")) return 0;
    *(void **)found = opened;
    return 1;
}

static int has_library(void) { return dlsym(RTLD_NEXT, "PMPI_File_open") != NULL; }

static void find_handle(void) {
    void *found = NULL;
    if (!has_library()) dl_iterate_phdr(find_library, &found);
    if (found) handle = found;
}

static pthread_once_t once_found = PTHREAD_ONCE_INIT;

static void *look_up(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    return symbol || handle == RTLD_NEXT ? symbol : dlsym(handle, name);
}

#ifdef OPEN_MPI
/* A program may have its own copy of a library's variable, and its address is the one that counts. */
static void *variable(const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : look_up(name);
}
#endif

void *fb_next(const char *name) {
    pthread_once(&once_found, find_handle);
    void *symbol = look_up(name);
    if (!symbol) {
        fprintf(stderr, "forebay-mpiio: the program calls %s, and no library has it\n", name);
        abort();
    }
    return symbol;
}

static int is_like_mpich(const char *version) {
    return strstr(version, "MPICH") || strstr(version, "MVAPICH") || strstr(version, "Intel(R) MPI");
}

/* Whether the MPI that is there is of the ABI of mpi.h. */
static int same_abi(const char *version) {
#ifdef OPEN_MPI
    return strstr(version, "Open MPI") != NULL;
#else
    return is_like_mpich(version);
#endif
}

/* Ranks are known before MPI is, to who asks the launcher. */
static int is_first_rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rank = getenv(names[i]);
        if (rank) return strcmp(rank, "0") == 0;
    }
    return 1;
}

static int load(void) {
    pthread_once(&once_found, find_handle);
    if (handle == RTLD_NEXT && !has_library()) return 0;
    int (*get_version)(char *, int *) = (int (*)(char *, int *))look_up("PMPI_Get_library_version");
    char *version = calloc(1, VERSION_BYTES);
    int len = 0;
    if (!get_version || !version || get_version(version, &len) != 0) return 0;
    int ours = same_abi(version);
    if (!ours && is_first_rank()) {
        version[strcspn(version, "\n,")] = 0;
        const char *right = strstr(version, "Open MPI") ? "openmpi" : is_like_mpich(version) ? "mpich" : NULL;
        fprintf(stderr, "forebay-mpiio: this library is for %s, and the program uses %.60s: nothing is aggregated; ",
                FB_MPI_NAME, version);
        if (right) fprintf(stderr, "`forebay mpiio --mpi %s` has the right one\n", right);
        else fprintf(stderr, "there is no library for it\n");
    }
    free(version);
#ifndef FB_HAS_LARGE
    /* Calls that the program may make and this library does not stand before. */
    if (ours && look_up("PMPI_File_write_at_c")) {
        if (is_first_rank()) {
            fprintf(stderr, "forebay-mpiio: the program's MPI has large-count calls, which the one that this library was built "
                            "with has not: nothing is aggregated; build it with the program's mpicc\n");
        }
        return 0;
    }
#endif
    const char *missing = NULL;
#define X(name)                                                                                                        \
    if (ours && !(fb_mpi.name = (__typeof__(fb_mpi.name))look_up("PMPI_" #name))) missing = "PMPI_" #name;
    FB_FUNCTIONS(X)
#undef X
#ifdef OPEN_MPI
#define X(type, name, symbol)                                                                                          \
    if (ours && !(fb_mpi.name = (type)variable(#symbol))) missing = #symbol;
#else
#define X(type, name, symbol) fb_mpi.name = symbol;
#endif
    FB_CONSTANTS(X)
#undef X
    if (missing && is_first_rank()) {
        fprintf(stderr, "forebay-mpiio: the program's MPI has no %s: nothing is aggregated\n", missing);
    }
    return ours && !missing;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_ours;

static void load_once(void) { is_ours = load(); }

int fb_is_ours(void) {
    pthread_once(&once, load_once);
    return is_ours;
}
