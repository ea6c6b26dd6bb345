/* Takes MPI datatypes apart, constructor by constructor (MPI_Type_get_envelope and MPI_Type_get_contents).
 *
 * The numbers of a constructor come as integers, addresses or, for types made by a large-count call, as counts; struct
 * contents has them all as wide numbers in one row, in the order of the standard's tables (MPI 4.0, 5.1.13): first what was
 * an integer or a count, then addresses. Extents come from MPI, so bounds that were set by hand need no care here.
 */
#include "datatype.h"

#include <stdlib.h>

enum { DEPTH_MAX = 64 }; /* Types within types; a program that nests deeper is passed through. */

struct contents {
    int combiner, is_large;
    MPI_Count integer_count, address_count, large_count, type_count;
    int *integers;
    MPI_Aint *addresses;
    MPI_Count *large;
    MPI_Datatype *types;
};

static fb_flat *flatten(MPI_Datatype type, int depth);

static int get_envelope(MPI_Datatype type, struct contents *c) {
#ifdef FB_HAS_LARGE
    return MPI(Type_get_envelope_c)(type, &c->integer_count, &c->address_count, &c->large_count, &c->type_count,
                                    &c->combiner);
#else
    int integers, addresses, types, code = MPI(Type_get_envelope)(type, &integers, &addresses, &types, &c->combiner);
    c->integer_count = integers;
    c->address_count = addresses;
    c->type_count = types;
    return code;
#endif
}

/* Types that MPI has of itself must not be freed. */
static int is_predefined(int combiner) {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static void free_contents(struct contents *c) {
    for (MPI_Count i = 0; c->types && i < c->type_count; i++) {
        struct contents inner = {0};
        if (get_envelope(c->types[i], &inner) == MPI_SUCCESS && !is_predefined(inner.combiner))
            MPI(Type_free)(&c->types[i]);
    }
    free(c->integers);
    free(c->addresses);
    free(c->large);
    free(c->types);
}

static int get_contents(MPI_Datatype type, struct contents *c) {
    c->is_large = c->large_count > 0;
    c->integers = calloc(c->integer_count + 1, sizeof *c->integers);
    c->addresses = calloc(c->address_count + 1, sizeof *c->addresses);
    c->large = calloc(c->large_count + 1, sizeof *c->large);
    MPI_Datatype *types = calloc(c->type_count + 1, sizeof *types);
    int code = MPI_ERR_NO_MEM;
    if (c->integers && c->addresses && c->large && types) {
#ifdef FB_HAS_LARGE
        code = MPI(Type_get_contents_c)(type, c->integer_count, c->address_count, c->large_count, c->type_count,
                                        c->integers, c->addresses, c->large, types);
#else
        code = MPI(Type_get_contents)(type, c->integer_count, c->address_count, c->type_count, c->integers,
                                      c->addresses, types);
#endif
    }
    if (code == MPI_SUCCESS) c->types = types;
    else free(types);
    return code;
}

/* Number i of the constructor, counted over integers (or counts), then addresses. */
static int64_t number(const struct contents *c, MPI_Count i) {
    if (c->is_large) return c->large[i];
    return i < c->integer_count ? (int64_t)c->integers[i] : (int64_t)c->addresses[i - c->integer_count];
}

static int64_t extent_of(MPI_Datatype type) {
    MPI_Count lb = 0, extent = 0;
    MPI(Type_get_extent_x)(type, &lb, &extent);
    return extent;
}

/* A type without constructor: its bytes together, but for pairs of which the second part is aligned. */
static fb_flat *flatten_named(MPI_Datatype type) {
    MPI_Count size = 0;
    if (MPI(Type_size_x)(type, &size) != MPI_SUCCESS || size < 0) return NULL;
    struct fb_piece pieces[2] = {{0, size}, {0, 0}};
    if (type == fb_mpi.short_int) {
        struct { short a; int b; } pair;
        pieces[0].len = sizeof pair.a;
        pieces[1] = (struct fb_piece){(char *)&pair.b - (char *)&pair, sizeof pair.b};
        return fb_flat_basic(pieces, 2, extent_of(type));
    }
    return fb_flat_basic(pieces, 1, extent_of(type));
}

/* Blocks of one type as they come, those that continue each other as one. */
struct row {
    const fb_flat *of;
    int64_t extent_of_element;
    struct fb_block *blocks;
    int64_t count, room;
};

/* False for more blocks than a type may have pieces, or without memory. Few types have as many blocks as they say: what
 * continues is one block, however many there are. */
static int add(struct row *row, int64_t elements, int64_t offset) {
    if (elements <= 0) return elements == 0;
    struct fb_block *last = row->count ? &row->blocks[row->count - 1] : NULL;
    if (last && offset == last->offset + (int64_t)last->count * row->extent_of_element) {
        last->count += (uint64_t)elements;
        return 1;
    }
    if (row->count == FB_PIECES_MAX) return 0;
    if (row->count == row->room) {
        int64_t room = 2 * row->room + 16;
        struct fb_block *blocks = realloc(row->blocks, (size_t)room * sizeof *blocks);
        if (!blocks) return 0;
        row->blocks = blocks;
        row->room = room;
    }
    row->blocks[row->count++] = (struct fb_block){row->of, (uint64_t)elements, offset};
    return 1;
}

static fb_flat *flatten_row(struct row *row, int is_whole, int64_t extent) {
    fb_flat *flat = is_whole ? fb_flat_blocks(row->blocks, (size_t)row->count, extent) : NULL;
    free(row->blocks);
    return flat;
}

/* Blocks of one type; where number i of the block lengths is `lens + i` (or always `lens`), and its place `places + i` times
 * `unit` bytes. */
static fb_flat *flatten_blocks(const struct contents *c, const fb_flat *of, MPI_Count lens, int same_len, MPI_Count places,
                               int64_t unit, int64_t extent) {
    int64_t count = number(c, 0), i = 0;
    struct row row = {.of = of, .extent_of_element = extent_of(c->types[0])};
    while (i < count && add(&row, number(c, same_len ? lens : lens + i), number(c, places + i) * unit)) i++;
    return flatten_row(&row, i == count, extent);
}

static fb_flat *flatten_vector(const struct contents *c, const fb_flat *of, int64_t unit, int64_t extent) {
    int64_t count = number(c, 0), len = number(c, 1), stride = number(c, 2) * unit, i = 0;
    struct row row = {.of = of, .extent_of_element = extent_of(c->types[0])};
    if (stride == len * row.extent_of_element || len == 0) {
        struct fb_block all = {of, 0, 0};
        if (__builtin_mul_overflow((uint64_t)count, (uint64_t)len, &all.count)) return NULL;
        return fb_flat_blocks(&all, 1, extent);
    }
    while (i < count && add(&row, len, i * stride)) i++;
    return flatten_row(&row, i == count, extent);
}

static fb_flat *flatten_struct(const struct contents *c, int depth, int64_t extent) {
    int64_t count = number(c, 0);
    struct fb_block *blocks = calloc(count + 1, sizeof *blocks);
    fb_flat **parts = calloc(count + 1, sizeof *parts);
    fb_flat *flat = NULL;
    int64_t i = 0;
    for (; blocks && parts && i < count; i++) {
        if (!(parts[i] = flatten(c->types[i], depth + 1))) break;
        blocks[i] = (struct fb_block){parts[i], number(c, 1 + i), number(c, 1 + count + i)};
    }
    if (blocks && parts && i == count) flat = fb_flat_blocks(blocks, count, extent);
    for (int64_t j = 0; parts && j < count; j++) fb_flat_free(parts[j]);
    free(blocks);
    free(parts);
    return flat;
}

/* Numbers of arrays lie apart in the large form: dimensions and orders stay integers, sizes are counts. */
static int64_t array_number(const struct contents *c, int row, int dimension, int dimensions, int leading) {
    MPI_Count i = (MPI_Count)row * dimensions + dimension;
    return c->is_large ? c->large[i] : c->integers[leading + i];
}

static fb_flat *flatten_subarray(const struct contents *c, const fb_flat *of) {
    int n = c->integers[0];
    int order = c->integers[c->is_large ? 1 : 1 + 3 * n];
    uint64_t (*dimensions)[3] = calloc(n + 1, sizeof *dimensions);
    if (!dimensions) return NULL;
    for (int d = 0; d < n; d++) {
        for (int row = 0; row < 3; row++) dimensions[d][row] = array_number(c, row, d, n, 1);
    }
    fb_flat *flat = fb_flat_subarray(of, (const uint64_t(*)[3])dimensions, n, order == MPI_ORDER_FORTRAN);
    free(dimensions);
    return flat;
}

static fb_flat *flatten_darray(const struct contents *c, const fb_flat *of) {
    /* size, rank, ndims, [gsizes,] distribs, dargs, psizes, order */
    int rank = c->integers[1], n = c->integers[2], first = c->is_large ? 3 : 3 + n;
    const int *distributions = c->integers + first, *arguments = distributions + n, *processes = arguments + n;
    struct fb_dealt *dimensions = calloc(n + 1, sizeof *dimensions);
    if (!dimensions) return NULL;
    for (int d = 0; d < n; d++) {
        dimensions[d].size = array_number(c, 0, d, n, 3);
        dimensions[d].processes = processes[d];
        dimensions[d].argument = arguments[d] == MPI_DISTRIBUTE_DFLT_DARG ? 0 : arguments[d];
        dimensions[d].distribution = distributions[d] == MPI_DISTRIBUTE_BLOCK    ? FB_BLOCK
                                     : distributions[d] == MPI_DISTRIBUTE_CYCLIC ? FB_CYCLIC
                                                                                 : FB_WHOLE;
    }
    fb_flat *flat = fb_flat_darray(of, rank, dimensions, n, processes[n] == MPI_ORDER_FORTRAN);
    free(dimensions);
    return flat;
}

/* A constructor over one type. */
static fb_flat *flatten_over(const struct contents *c, MPI_Datatype type, const fb_flat *of) {
    int64_t extent = extent_of(type), unit = extent_of(c->types[0]);
    struct fb_block one = {of, 1, 0};
    switch (c->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return fb_flat_blocks(&one, 1, extent);
    case MPI_COMBINER_CONTIGUOUS: one.count = number(c, 0); return fb_flat_blocks(&one, 1, extent);
    case MPI_COMBINER_VECTOR: return flatten_vector(c, of, unit, extent);
    case MPI_COMBINER_HVECTOR: return flatten_vector(c, of, 1, extent);
    case MPI_COMBINER_INDEXED: return flatten_blocks(c, of, 1, 0, 1 + number(c, 0), unit, extent);
    case MPI_COMBINER_HINDEXED: return flatten_blocks(c, of, 1, 0, 1 + number(c, 0), 1, extent);
    case MPI_COMBINER_INDEXED_BLOCK: return flatten_blocks(c, of, 1, 1, 2, unit, extent);
    case MPI_COMBINER_HINDEXED_BLOCK: return flatten_blocks(c, of, 1, 1, 2, 1, extent);
    case MPI_COMBINER_SUBARRAY: return flatten_subarray(c, of);
    case MPI_COMBINER_DARRAY: return flatten_darray(c, of);
    default: return NULL;
    }
}

static fb_flat *flatten(MPI_Datatype type, int depth) {
    struct contents c = {0};
    /* MPI itself says what is wrong with a null type, by the file's error handler. */
    if (type == fb_mpi.datatype_null || depth > DEPTH_MAX || get_envelope(type, &c) != MPI_SUCCESS) return NULL;
    if (is_predefined(c.combiner)) return flatten_named(type);
    if (get_contents(type, &c) != MPI_SUCCESS) {
        free_contents(&c);
        return NULL;
    }
    fb_flat *flat = NULL;
    if (c.combiner == MPI_COMBINER_STRUCT) {
        flat = flatten_struct(&c, depth, extent_of(type));
    } else if (c.type_count == 1) {
        fb_flat *of = flatten(c.types[0], depth + 1);
        if (of) flat = flatten_over(&c, type, of);
        fb_flat_free(of);
    }
    free_contents(&c);
    return flat;
}

fb_flat *fb_flatten(MPI_Datatype type) { return flatten(type, 0); }
