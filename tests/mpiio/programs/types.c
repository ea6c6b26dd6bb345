/* types FILE WHICH: datatypes in memory and as views of the file, made by every constructor. Each is written once, a stretch of the
 * file for each, so that the file shows what became of every byte. WHICH is `comparable` for those that ROMIO knows too, or `others` for
 * pairs such as MPI_SHORT_INT, and types made by large-count calls, on which ROMIO fails. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, STRETCH = 1 << 16 };
static int rank, ranks, number;
static MPI_File fh;
static unsigned char memory[BYTES];

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "rank %d, type %d: %s\n", rank, number, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Offset stretch(void) { return (MPI_Offset)number * ranks * STRETCH; }

/* Two elements from the middle of memory into the file, and back into other memory, which must have the same bytes. */
static void in_memory(MPI_Datatype type) {
    unsigned char back[BYTES], packed[2 * BYTES], packed_back[2 * BYTES];
    int size, at = 0, at_back = 0;
    MPI_Status status;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Offset offset = stretch() + (MPI_Offset)rank * 2 * size;
    check(MPI_File_write_at_all(fh, offset, memory + BYTES / 2, 2, type, &status), "write");
    int count;
    MPI_Get_count(&status, type, &count);
    check(count == 2 || size == 0 ? MPI_SUCCESS : MPI_ERR_COUNT, "count");
    memset(back, 0, sizeof back);
    check(MPI_File_read_at_all(fh, offset, back + BYTES / 2, 2, type, &status), "read");
    MPI_Pack(memory + BYTES / 2, 2, type, packed, sizeof packed, &at, MPI_COMM_SELF);
    MPI_Pack(back + BYTES / 2, 2, type, packed_back, sizeof packed_back, &at_back, MPI_COMM_SELF);
    check(at == at_back && !memcmp(packed, packed_back, at) ? MPI_SUCCESS : MPI_ERR_OTHER, "bytes differ");
    number++;
}

/* A view through the type: what fits into three and a half of its tiles, in two calls. */
static void as_view(MPI_Datatype type, MPI_Offset displacement) {
    int size, unit;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    unit = size * 7 / 2;
    check(MPI_File_set_view(fh, stretch() + displacement, MPI_BYTE, type, "native", MPI_INFO_NULL), "view");
    check(MPI_File_write_all(fh, memory, unit / 3, MPI_BYTE, MPI_STATUS_IGNORE), "write in view");
    check(MPI_File_write_all(fh, memory + unit / 3, unit - unit / 3, MPI_BYTE, MPI_STATUS_IGNORE), "write in view");
    unsigned char back[BYTES];
    check(MPI_File_read_at_all(fh, 1, back, unit - 1, MPI_BYTE, MPI_STATUS_IGNORE), "read in view");
    check(!memcmp(back, memory + 1, unit - 1) ? MPI_SUCCESS : MPI_ERR_OTHER, "bytes in view differ");
    check(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
    number++;
}

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint lb, MPI_Aint extent) {
    MPI_Datatype made;
    MPI_Type_create_resized(type, lb, extent, &made);
    return made;
}

static void one_of_each(void) {
    MPI_Datatype type, inner;
    int lens[3] = {2, 1, 3}, places[3] = {0, 5, 7}, places_down[3] = {20, 9, 0};
    MPI_Aint bytes[3] = {0, 30, 44}, bytes_any[3] = {100, -40, 8};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_CHAR, MPI_SHORT};
    in_memory(MPI_BYTE), in_memory(MPI_DOUBLE);
    MPI_Type_contiguous(5, MPI_INT, &type), in_memory(type);
    MPI_Type_vector(4, 2, 3, MPI_INT, &type), in_memory(type);
    MPI_Type_vector(4, 2, -3, MPI_INT, &type), in_memory(type);
    MPI_Type_create_hvector(3, 2, 17, MPI_SHORT, &type), in_memory(type);
    MPI_Type_indexed(3, lens, places_down, MPI_INT, &type), in_memory(type);
    MPI_Type_create_hindexed(3, lens, bytes_any, MPI_INT, &type), in_memory(type);
    MPI_Type_create_indexed_block(3, 2, places_down, MPI_SHORT, &type), in_memory(type);
    MPI_Type_create_hindexed_block(3, 2, bytes_any, MPI_SHORT, &type), in_memory(type);
    MPI_Type_create_struct(3, lens, bytes, types, &type), in_memory(type);
    MPI_Type_dup(type, &inner), in_memory(inner);
    MPI_Type_create_f90_real(6, 30, &type);
    MPI_Type_contiguous(3, type, &inner), in_memory(inner);
    in_memory(resized(MPI_INT, -4, 12));
    MPI_Type_contiguous(0, MPI_INT, &type), in_memory(type);
    /* Types of types. */
    MPI_Type_vector(2, 1, 2, resized(MPI_INT, 0, 12), &inner);
    MPI_Type_create_struct(2, lens, bytes, (MPI_Datatype[]){inner, MPI_DOUBLE}, &type), in_memory(type);
    MPI_Type_indexed(3, lens, places, MPI_SHORT, &type);
    as_view(resized(type, 0, (MPI_Aint)ranks * 32), rank * 32);
    MPI_Type_create_struct(3, lens, bytes, types, &type);
    as_view(resized(type, 0, (MPI_Aint)ranks * 128), rank * 128);
}

static void arrays(void) {
    MPI_Datatype type;
    int sizes[3] = {6, 5 * ranks, 4}, parts[3] = {3, 5, 2}, starts[3] = {1, 5 * rank, 1}, small[3] = {6, 5, 4},
        start[3] = {1, 0, 1};
    for (int order = 0; order < 2; order++) {
        int how = order ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
        MPI_Type_create_subarray(3, small, parts, start, how, MPI_SHORT, &type), in_memory(type);
        MPI_Type_create_subarray(3, sizes, parts, starts, how, MPI_SHORT, &type), as_view(type, 10);
        int kinds[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
        for (int kind = 0; kind < 6; kind++) {
            int grid[3] = {1, 1, 1}, distributions[3], arguments[3], whole[3] = {7, 9, 5};
            for (int d = 0; d < 3; d++) distributions[d] = kinds[(kind + d) % 3];
            for (int d = 0; d < 3; d++) {
                arguments[d] = kind > 2 && distributions[d] == MPI_DISTRIBUTE_CYCLIC ? 2 : MPI_DISTRIBUTE_DFLT_DARG;
                if (distributions[d] == MPI_DISTRIBUTE_CYCLIC) grid[d] = ranks;
            }
            MPI_Type_create_darray(ranks, rank, 3, whole, distributions, arguments, grid, how, MPI_SHORT, &type);
            as_view(type, 4);
        }
    }
}

static void large_forms(void) {
#if MPI_VERSION >= 4
    MPI_Datatype type;
    MPI_Count lens[3] = {2, 1, 3}, bytes[3] = {0, 30, 44}, small[2] = {6, 5}, parts[2] = {3, 2}, starts[2] = {1, 2};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_CHAR, MPI_SHORT};
    MPI_Type_contiguous_c(5, MPI_INT, &type), in_memory(type);
    MPI_Type_vector_c(4, 2, 3, MPI_INT, &type), in_memory(type);
    MPI_Type_create_hvector_c(3, 2, 17, MPI_SHORT, &type), in_memory(type);
    MPI_Type_indexed_c(3, lens, bytes, MPI_INT, &type), in_memory(type);
    MPI_Type_create_hindexed_c(3, lens, bytes, MPI_INT, &type), in_memory(type);
    MPI_Type_create_hindexed_block_c(3, 2, bytes, MPI_SHORT, &type), in_memory(type);
    MPI_Type_create_struct_c(3, lens, bytes, types, &type), in_memory(type);
    MPI_Type_create_resized_c(MPI_INT, 0, 20, &type), in_memory(type);
    MPI_Type_create_subarray_c(2, small, parts, starts, MPI_ORDER_C, MPI_SHORT, &type), in_memory(type);
#endif
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < BYTES; i++) memory[i] = (unsigned char)(i * 31 + i / 256 * 7 + rank * 101 + 1);
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh), "open");
    if (!strcmp(argv[2], "others")) {
        in_memory(MPI_SHORT_INT), in_memory(MPI_DOUBLE_INT);
        large_forms();
    } else {
        one_of_each();
        arrays();
    }
    check(MPI_File_close(&fh), "close");
    if (rank == 0) printf("%d types\n", number);
    MPI_Finalize();
    return 0;
}
