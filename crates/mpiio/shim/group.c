/* See group.h. Lengths of messages are beyond int: long ones go in pieces, which arrive in order. */
#include "group.h"

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 30, TAG = 0 };

struct exchange {
    int count;
    MPI_Request requests[];
};

static int all_gather(void *context, const void *own, void *all, size_t len) {
    return MPI(Allgather)(own, (int)len, fb_mpi.byte, all, (int)len, fb_mpi.byte, **(MPI_Comm **)context);
}

static int all_max(void *context, int64_t *values, size_t count) {
    return MPI(Allreduce)(MPI_IN_PLACE, values, (int)count, fb_mpi.int64, fb_mpi.max, **(MPI_Comm **)context);
}

static int broadcast(void *context, void *bytes, size_t len) {
    return MPI(Bcast)(bytes, (int)len, fb_mpi.byte, 0, **(MPI_Comm **)context);
}

static size_t pieces(size_t count, const struct fb_message *messages) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) total += (messages[i].len + PIECE_BYTES - 1) / PIECE_BYTES;
    return total;
}

static int start(int sends, size_t count, const struct fb_message *messages, MPI_Comm comm, struct exchange *exchange) {
    for (size_t i = 0; i < count; i++) {
        for (size_t done = 0; done < messages[i].len; done += PIECE_BYTES) {
            size_t left = messages[i].len - done;
            int len = left < PIECE_BYTES ? (int)left : PIECE_BYTES;
            char *bytes = (char *)messages[i].bytes + done;
            MPI_Request *request = &exchange->requests[exchange->count];
            int code = sends ? MPI(Isend)(bytes, len, fb_mpi.byte, messages[i].peer, TAG, comm, request)
                             : MPI(Irecv)(bytes, len, fb_mpi.byte, messages[i].peer, TAG, comm, request);
            if (code != MPI_SUCCESS) return code;
            exchange->count++;
        }
    }
    return MPI_SUCCESS;
}

static int finish(void *context, void *request) {
    (void)context;
    struct exchange *exchange = request;
    int code = MPI(Waitall)(exchange->count, exchange->requests, MPI_STATUSES_IGNORE);
    free(exchange);
    return code;
}

static int begin(void *context, size_t sends, const struct fb_message *to, size_t receives,
                 const struct fb_message *from, void **request) {
    size_t count = pieces(sends, to) + pieces(receives, from);
    struct exchange *exchange = malloc(sizeof *exchange + count * sizeof *exchange->requests);
    if (!exchange) return MPI_ERR_NO_MEM;
    exchange->count = 0;
    MPI_Comm comm = **(MPI_Comm **)context;
    int code = start(0, receives, from, comm, exchange);
    if (code == MPI_SUCCESS) code = start(1, sends, to, comm, exchange);
    if (code != MPI_SUCCESS) {
        finish(context, exchange);
        return code;
    }
    *request = exchange;
    return MPI_SUCCESS;
}

const struct fb_calls fb_group_calls = {all_gather, all_max, broadcast, begin, finish};
