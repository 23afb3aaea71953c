/* SPDX-License-Identifier: Apache-2.0 */
/* The whole state: comparison, and seeding of a design. */
#include <stdlib.h>

#include "cosim/board.h"

enum { BLOCK = 4096, SEED_MAX = 64 << 20 };

static unsigned find_space(const tv_scoreboard *b, const char *name)
{
    unsigned i = 0;
    while (i < b->spaces.count && strcmp(b->spaces.data[i].name, name) != 0)
        i++;
    return i;
}

/* Compares one block. Adds the elements that differ to m->count; the first of all is described. */
static void compare_block(const tv_scoreboard *b, const board_bytes *block, tv_mismatch *m)
{
    tolerance t;
    tv_dtype type = tv_board_type(b, "", block->space, &t);
    uint64_t first = 0, count = 0;
    if (t.ignore || memcmp(block->expected, block->actual, block->bytes) == 0)
        return;
    for (uint64_t i = 0; i * tv_dtype_bits(type) < block->bytes * 8; i++)
        if (!tv_board_accepts(block, i, type, &t) && count++ == 0)
            first = i;
    if (count && m->count == 0)
        tv_board_describe(b, block, first, type, m);
    m->count += count;
}

tv_status tv_scoreboard_state(tv_scoreboard *b, const char *space, uint64_t addr, const void *data, size_t bytes)
{
    unsigned index = find_space(b, space);
    if (index == b->spaces.count)
        return TV_ERR_INPUT;
    uint64_t unit = b->spaces.data[index].unit_bytes, step = unit < BLOCK ? BLOCK / unit * unit : unit;
    uint8_t *expected = malloc(step);
    tv_mismatch m = {.kind = TV_MISMATCH_STATE, .number = b->issued_count};
    tv_status status = expected ? TV_OK : TV_ERR_MEMORY;
    for (uint64_t at = 0; at < bytes && status == TV_OK; at += step) {
        size_t size = (size_t)tv_min_u64(step, bytes - at);
        status = tv_machine_read(b->machine, space, addr + at / unit, expected, size, NULL);
        if (status != TV_OK)
            break;
        compare_block(
            b, &(board_bytes){b->spaces.data[index].base, addr * unit + at, size, expected, (const uint8_t *)data + at},
            &m);
    }
    free(expected);
    if (status == TV_OK && m.count)
        tv_board_report(b, &m);
    return status;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static tv_status seed_space(tv_scoreboard *b, const tv_space *space, const tv_seed_sink *seed)
{
    uint64_t unit = space->unit_bytes, step = unit < BLOCK ? BLOCK / unit * unit : unit, total = space->size * unit;
    uint8_t *bytes = malloc(step);
    tv_status status = bytes ? TV_OK : TV_ERR_MEMORY;
    for (uint64_t at = 0; at < total && status == TV_OK; at += step) {
        size_t size = (size_t)tv_min_u64(step, total - at);
        status = tv_machine_read(b->machine, space->name, at / unit, bytes, size, NULL);
        if (status == TV_OK && !is_zero(bytes, size))
            seed->write(seed->user, space->name, at / unit, bytes, size);
    }
    free(bytes);
    return status;
}

tv_status tv_scoreboard_seed(tv_scoreboard *b, const tv_seed_sink *seed)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(b->machine, i, &space); i++)
        if (!space.alias_of && !space.queue && strcmp(space.name, "mmio") != 0 &&
            space.size <= SEED_MAX / space.unit_bytes)
            TV_TRY(seed_space(b, &space, seed));
    return TV_OK;
}
