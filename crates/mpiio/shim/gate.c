/* MPI's names. A call comes here first, before anything is known about the program's MPI: a handle may be a number or an
 * address. The PMPI_ names too: Open MPI's Fortran interfaces call those, and so do tools that stand before MPI as this library does.
 *
 * Calls that the library stands before go to its own functions (calls.h). Their arguments are machine words, which reach the right
 * function as they came (integers and pointers, at most six: all in registers on x86-64 and aarch64, where a function may be given
 * more than it takes).
 *
 * All other calls that could pass a message (gated_calls.h, made from mpi.h by packaging/mpiio.sh) go to MPI as they came, after
 * this rank has written what it holds. They have arguments of any number and kind, so no C function passes them on: a few
 * instructions save the registers that arguments come in, ask where the call belongs, and jump there.
 */
#include <stdint.h>

#include "calls.h"
#include "files.h"
#include "gated_calls.h"

typedef uintptr_t word;
typedef int (*call)(word, word, word, word, word, word);

/* Whether this thread is in a call of this library, or of MPI's on its behalf: calls that MPI makes of itself then are none of the
 * program's. The library comes into a program with its start, so the place of this is known then: no call is made to find it. */
static __thread int is_inside __attribute__((tls_model("initial-exec")));

int fb_outside(int is_outside) {
    int was = !is_inside;
    is_inside = !is_outside;
    return was;
}

/* The treatment of held bytes before a call, by the macros of calls.h. If the call follows a collective write, they are held on. If it is
 * a collective call of the same file, it writes them with all ranks. Else this rank writes them now. A call that ends the program writes
 * them itself. */
enum kind { FOLLOWS, TOGETHER, ALONE, ENDS };

static int enter(enum kind kind, word handle) {
    int was_inside = is_inside;
    if (!was_inside) {
        if (kind != ENDS) fb_let_go(kind == ALONE ? NULL : (const void *)handle);
        if (kind != FOLLOWS) fb_count_call();
    }
    is_inside = 1;
    return was_inside;
}

#define GATE(gate, name, symbol, kind, handle)                                                                         \
    __attribute__((visibility("default"))) int gate(word, word, word, word, word, word) __asm__(symbol);               \
    int gate(word a, word b, word c, word d, word e, word f) {                                                         \
        call next = fb_is_ours() ? NULL : (call)fb_next(symbol);                                                       \
        if (next) return next(a, b, c, d, e, f);                                                                       \
        int was_inside = enter(kind, handle);                                                                          \
        call to = (call)(void *)fb_##name;                                                                             \
        int code = to(a, b, c, d, e, f);                                                                               \
        is_inside = was_inside;                                                                                        \
        return code;                                                                                                   \
    }
#define GATES(name, kind, handle)                                                                                      \
    GATE(fb_gate_##name, name, "MPI_" #name, kind, handle)                                                             \
    GATE(fb_pgate_##name, name, "PMPI_" #name, kind, handle)
#define X(name) GATES(name, FOLLOWS, a)
FB_FOLLOWING_CALLS(X)
#undef X
#define X(name) GATES(name, TOGETHER, a)
FB_TOGETHER_CALLS(X)
#undef X
#define X(name) GATES(name, ALONE, 0)
FB_ALONE_CALLS(X)
#undef X
#define X(name) GATES(name, ENDS, 0)
FB_ENDING_CALLS(X)
#undef X
/* It has the address of the handle. */
GATES(File_close, TOGETHER, *(word *)a)

/* A function of MPI's: where it is, once that is known. */
struct fb_slot {
    void *at;
    const char *symbol;
};

__attribute__((visibility("hidden"), used)) void *fb_before(struct fb_slot *slot) {
    void *at = __atomic_load_n(&slot->at, __ATOMIC_RELAXED);
    if (!at) {
        at = fb_next(slot->symbol);
        __atomic_store_n(&slot->at, at, __ATOMIC_RELAXED);
    }
    if (!is_inside) {
        fb_let_go(NULL);
        fb_count_call();
    }
    return at;
}

/* The registers of arguments, with those of vectors (a caller of a function with `...` uses them): x86-64's and aarch64's calling
 * conventions. The slot comes in a register that is the callee's to use. */
#if defined __x86_64__
#define TO_SLOT(slot) "  lea " slot "(%rip), %r11\n  jmp fb_gate\n"
__asm__(".text\n.type fb_gate, @function\nfb_gate:\n"
        "  push %rbp\n  mov %rsp, %rbp\n  sub $192, %rsp\n"
        "  mov %rdi, 0(%rsp)\n  mov %rsi, 8(%rsp)\n  mov %rdx, 16(%rsp)\n  mov %rcx, 24(%rsp)\n  mov %r8, 32(%rsp)\n"
        "  mov %r9, 40(%rsp)\n  mov %rax, 48(%rsp)\n  mov %r10, 56(%rsp)\n"
        "  movups %xmm0, 64(%rsp)\n  movups %xmm1, 80(%rsp)\n  movups %xmm2, 96(%rsp)\n  movups %xmm3, 112(%rsp)\n"
        "  movups %xmm4, 128(%rsp)\n  movups %xmm5, 144(%rsp)\n  movups %xmm6, 160(%rsp)\n  movups %xmm7, 176(%rsp)\n"
        "  mov %r11, %rdi\n  call fb_before\n  mov %rax, %r11\n"
        "  mov 0(%rsp), %rdi\n  mov 8(%rsp), %rsi\n  mov 16(%rsp), %rdx\n  mov 24(%rsp), %rcx\n  mov 32(%rsp), %r8\n"
        "  mov 40(%rsp), %r9\n  mov 48(%rsp), %rax\n  mov 56(%rsp), %r10\n"
        "  movups 64(%rsp), %xmm0\n  movups 80(%rsp), %xmm1\n  movups 96(%rsp), %xmm2\n  movups 112(%rsp), %xmm3\n"
        "  movups 128(%rsp), %xmm4\n  movups 144(%rsp), %xmm5\n  movups 160(%rsp), %xmm6\n  movups 176(%rsp), %xmm7\n"
        "  leave\n  jmp *%r11\n.size fb_gate, . - fb_gate\n");
#elif defined __aarch64__
#define TO_SLOT(slot) "  adrp x16, " slot "\n  add x16, x16, :lo12:" slot "\n  b fb_gate\n"
__asm__(".text\n.type fb_gate, %function\nfb_gate:\n"
        "  stp x29, x30, [sp, #-224]!\n  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n  str x8, [sp, #80]\n"
        "  stp q0, q1, [sp, #96]\n  stp q2, q3, [sp, #128]\n  stp q4, q5, [sp, #160]\n  stp q6, q7, [sp, #192]\n"
        "  mov x0, x16\n  bl fb_before\n  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n  ldr x8, [sp, #80]\n"
        "  ldp q0, q1, [sp, #96]\n  ldp q2, q3, [sp, #128]\n  ldp q4, q5, [sp, #160]\n  ldp q6, q7, [sp, #192]\n"
        "  ldp x29, x30, [sp], #224\n  br x16\n.size fb_gate, . - fb_gate\n");
#else
#error "gate.c does not know the registers of this processor: it knows x86-64 and aarch64"
#endif

#if defined __aarch64__
#define FUNCTION "%function"
#else
#define FUNCTION "@function"
#endif

#define SLOT(slot, symbol)                                                                                             \
    __attribute__((visibility("hidden"), used)) struct fb_slot slot = {NULL, symbol};                                  \
    __asm__(".text\n.globl " symbol "\n.type " symbol ", " FUNCTION "\n" symbol ":\n" TO_SLOT(#slot));
#define X(name) SLOT(fb_slot_##name, #name) SLOT(fb_pslot_##name, "P" #name)
FB_GATED_CALLS(X)
#undef X
