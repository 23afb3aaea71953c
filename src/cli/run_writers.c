/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_writers.h"

/* An entry has the kind in bits 0 and 1, the program in the next PROGRAM_BITS, then the index. */
enum { KIND_BITS = 2, PROGRAM_BITS = 12 };

tv_status writers_init(writer_map *map, const tv_range *range)
{
    map->range = *range;
    map->entries = calloc((size_t)range->count + 1, sizeof *map->entries);
    return map->entries ? TV_OK : TV_ERR_MEMORY;
}

void writers_fini(writer_map *map)
{
    free(map->entries);
    map->entries = NULL;
}

static uint64_t pack(const tv_commit *commit, unsigned program)
{
    uint64_t kind = commit->kind == TV_COMMIT_INSTRUCTION ? WRITER_INSTRUCTION
                    : commit->kind == TV_COMMIT_LOAD      ? WRITER_DATA
                                                          : WRITER_HOST;
    return kind | (uint64_t)program << KIND_BITS | commit->index << (KIND_BITS + PROGRAM_BITS);
}

/* Effects name the space that has the bytes; a unit of an alias has the same bytes in another order, so that a write to
 * a part of it can change each of its elements. */
static void note_effect(writer_map *map, const tv_effect *effect, uint64_t entry)
{
    const tv_range *r = &map->range;
    const char *space = r->space.alias_of ? r->space.alias_of : r->space.name;
    unsigned bits = tv_dtype_bits(r->type);
    uint64_t unit = r->space.unit_bytes, start = r->addr * unit, end = start + tv_dtype_bytes(r->type, r->count);
    uint64_t from = effect->addr * effect->unit_bytes, to = from + effect->bytes;
    if (!effect->write || strcmp(effect->space, space) != 0)
        return;
    if (r->space.alias_of) {
        from = from / unit * unit;
        to = (to + unit - 1) / unit * unit;
    }
    from = from > start ? from : start;
    to = to < end ? to : end;
    if (from >= to)
        return;
    uint64_t last = ((to - start) * 8 + bits - 1) / bits;
    for (uint64_t i = (from - start) * 8 / bits; i < last && i < r->count; i++)
        map->entries[i] = entry;
}

void writers_note(writer_map *map, const tv_commit *commit, unsigned program)
{
    uint64_t entry = pack(commit, program);
    if (commit->kind == TV_COMMIT_COMPLETION || map->range.space.queue)
        return;
    for (unsigned i = 0; i < commit->effect_count; i++)
        note_effect(map, &commit->effects[i], entry);
}

last_writer writers_at(const writer_map *map, uint64_t element)
{
    uint64_t entry = map->entries[element];
    return (last_writer){(writer_kind)(entry & ((1 << KIND_BITS) - 1)),
                         (unsigned)(entry >> KIND_BITS & ((1 << PROGRAM_BITS) - 1)),
                         entry >> (KIND_BITS + PROGRAM_BITS)};
}
