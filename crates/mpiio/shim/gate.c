/* MPI's names. A call comes here first, before anything is known about the program's MPI: a handle may be a number or an
 * address. So arguments are machine words, which reach the right function as they came (integers and pointers, at most six:
 * all in registers on x86-64 and aarch64, where a function may be given more than it takes).
 *
 * The PMPI_ names too: Open MPI's Fortran interfaces call those, and so do tools that stand before MPI as this library does.
 */
#include <stdint.h>

#include "calls.h"

typedef uintptr_t word;
typedef int (*call)(word, word, word, word, word, word);

#define GATE(gate, name, symbol)                                                                                       \
    __attribute__((visibility("default"))) int gate(word, word, word, word, word, word) __asm__(symbol);               \
    int gate(word a, word b, word c, word d, word e, word f) {                                                         \
        call to = fb_is_ours() ? (call)(void *)fb_##name : (call)fb_next(symbol);                                      \
        return to(a, b, c, d, e, f);                                                                                   \
    }
#define X(name) GATE(fb_gate_##name, name, "MPI_" #name) GATE(fb_pgate_##name, name, "PMPI_" #name)
FB_CALLS(X)
#undef X
