/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix instruction reads its shape from the Constant Cache and its weights from a stream. Random words mostly find
 * a shape that is zero or too large, so that the entries are written first, with dimensions that are corners of tiles
 * (multiples of 32 elements of K, of 8 results) or any small number. */
#include "cosim/generate_pccx.h"

#include <string.h>

enum { WEIGHT_BANK = 1, MATRIX_TRIES = 8, ADDRESS_BITS = 12 };

typedef struct values {
    uint64_t a, b, c;
} values;

bool pccx_generate_is_matrix(const tv_isa *isa, unsigned row)
{
    return strcmp(isa->insns[row].id, "GEMV") == 0 || strcmp(isa->insns[row].id, "GEMM") == 0;
}

static void set_field(const tv_isa *isa, unsigned format, const char *name, uint64_t value, uint64_t *word)
{
    for (unsigned i = 0; i < isa->field_count; i++)
        if (isa->fields[i].format == format && strcmp(isa->fields[i].name, name) == 0)
            *word = tv_field_set(isa, &isa->fields[i], *word, value);
}

static tv_status append_memset(tv_generator *g, unsigned bank, unsigned entry, const values *v)
{
    const tv_isa *isa = tv_generator_isa(g);
    unsigned row = 0;
    while (strcmp(isa->insns[row].id, "MEMSET") != 0)
        row++;
    uint64_t word = tv_generator_word(g, row);
    unsigned format = isa->insns[row].format;
    set_field(isa, format, "dest_cache", bank, &word);
    set_field(isa, format, "dest_addr", entry, &word);
    set_field(isa, format, "a_value", v->a, &word);
    set_field(isa, format, "b_value", v->b, &word);
    set_field(isa, format, "c_value", v->c, &word);
    return tv_generator_execute(g, word, NULL);
}

/* 1, up to `limit`, or one beside a multiple of `step`. */
static uint64_t draw_dimension(tv_generator *g, unsigned step, unsigned limit)
{
    uint64_t corner = (uint64_t)step * (1 + tv_generator_draw_below(g, limit / step));
    switch (tv_generator_draw_below(g, 5)) {
    case 0:
        return 1;
    case 1:
        return corner;
    case 2:
        return corner - 1;
    case 3:
        return corner + 1;
    }
    return 1 + tv_generator_draw_below(g, limit);
}

/* A size entry: tile sizes, and a static activation scale near 1 or none. */
static values draw_size(tv_generator *g)
{
    values v = {draw_dimension(g, 8, 32), draw_dimension(g, 32, 128), 0};
    if (tv_generator_draw_below(g, 4) == 0)
        v.c = 0x3C00 + tv_generator_draw_below(g, 0x400);
    return v;
}

/* Later tries have all lanes and low addresses. */
static uint64_t draw_matrix(tv_generator *g, unsigned row, unsigned shape, unsigned size, bool is_late)
{
    const tv_isa *isa = tv_generator_isa(g);
    unsigned format = isa->insns[row].format;
    uint64_t word = tv_generator_word(g, row);
    set_field(isa, format, "shape_ptr_addr", shape, &word);
    set_field(isa, format, "size_ptr_addr", size, &word);
    if (is_late) {
        set_field(isa, format, "parallel_lane", 0, &word);
        set_field(isa, format, "src_addr", tv_generator_draw(g) & tv_mask(ADDRESS_BITS), &word);
        set_field(isa, format, "dest_reg", tv_generator_draw(g) & tv_mask(ADDRESS_BITS), &word);
    }
    return word;
}

tv_status pccx_generate_matrix(tv_generator *g, unsigned row, uint64_t room, uint64_t *rejected)
{
    unsigned shape = tv_generator_draw_below(g, 64), size = tv_generator_draw_below(g, 64);
    bool is_gemv = strcmp(tv_generator_isa(g)->insns[row].id, "GEMV") == 0;
    values dimensions = {is_gemv ? 1 : draw_dimension(g, 4, 8), draw_dimension(g, 8, 32), draw_dimension(g, 32, 96)};
    values sizes = draw_size(g);
    const char *fault = "";
    if (room < 3)
        return TV_OK;
    TV_TRY(append_memset(g, WEIGHT_BANK, shape, &dimensions));
    if (tv_generator_draw_below(g, 2))
        TV_TRY(append_memset(g, 0, size, &sizes));
    for (unsigned i = 0; i < MATRIX_TRIES && fault; i++) {
        TV_TRY(tv_generator_execute(g, draw_matrix(g, row, shape, size, i >= MATRIX_TRIES / 2), &fault));
        *rejected += fault != NULL;
    }
    return TV_OK;
}
