/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and ranges of memory as the command line and the debugger take them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "machine/target.h"

enum { WORD_MAX = 128 };

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

/* Copies the word before the next ':'; *text moves after the colon, or becomes NULL. False: empty, or too long. */
static bool read_word(const char **text, char word[WORD_MAX])
{
    size_t n = strcspn(*text, ":");
    if (n == 0 || n >= WORD_MAX)
        return false;
    memcpy(word, *text, n);
    word[n] = '\0';
    *text = (*text)[n] ? *text + n + 1 : NULL;
    return true;
}

/* The value of a number, or of SYMBOL[+OFFSET]; `word` is unchanged on return. */
static bool resolve_address(const tv_program *const *programs, unsigned count, char *word, uint64_t *out)
{
    uint64_t offset = 0;
    tv_symbol symbol;
    if (parse_number(word, out))
        return true;
    char *plus = strchr(word, '+');
    if (plus && !parse_number(plus + 1, &offset))
        return false;
    if (plus)
        *plus = '\0';
    for (unsigned i = count; i-- > 0;)
        if (tv_program_symbol(programs[i], word, &symbol)) {
            *out = symbol.value + offset;
            return true;
        }
    if (plus)
        *plus = '+';
    return false;
}

static tv_status fail_syntax(const tv_machine *machine, const char *text, const char *form, const char *rest,
                             const tv_diag_sink *sink)
{
    char hint[96];
    tv_space first = {.name = "SPACE"};
    tv_machine_space_at(machine, 0, &first);
    snprintf(hint, sizeof hint, "for example %s:%s0%s", first.name, first.bank_size ? "0:" : "", rest);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_ADDRESS), hint, "'%.60s' is not %s", text, form);
}

static tv_status fail_address(const char *word, bool banks, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_ADDRESS),
                   banks ? "write BANK:OFFSET, an offset within the bank" : "use a number or a symbol of the program",
                   "'%.60s' is not an address", word);
}

tv_status tv_machine_parse_address(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                   const char *text, const tv_diag_sink *sink, tv_space *space, uint64_t *addr,
                                   const char **rest)
{
    char word[WORD_MAX];
    const char *at = text;
    uint64_t bank = 0;
    bool in_bank = false;
    if (!read_word(&at, word) || !at)
        return fail_syntax(machine, text, "SPACE:ADDR", "", sink);
    unsigned i = 0;
    while (tv_machine_space_at(machine, i, space) && strcmp(space->name, word) != 0)
        i++;
    if (!tv_machine_space_at(machine, i, space))
        return tv_fail_space(machine, word, sink);
    if (!read_word(&at, word))
        return fail_syntax(machine, text, "SPACE:ADDR", "", sink);
    if (space->bank_size && at) {
        if (!parse_number(word, &bank) || bank >= space->size / space->bank_size)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_ADDRESS), "write BANK:OFFSET",
                           "'%.60s' is not a bank of %s, which has %" PRIu64, word, space->name,
                           space->size / space->bank_size);
        if (!read_word(&at, word))
            return fail_address("", true, sink);
        in_bank = true;
    }
    if (!resolve_address(programs, count, word, addr) || (in_bank && *addr > space->bank_size))
        return fail_address(word, space->bank_size != 0, sink);
    *addr += bank * space->bank_size;
    *rest = at;
    return TV_OK;
}

tv_status tv_dtype_parse(const char *name, const tv_diag_sink *sink, tv_dtype *out)
{
    char names[160] = "the types are";
    if (tv_dtype_find(name, out) == TV_OK)
        return TV_OK;
    for (unsigned t = 0; t < TV_DTYPE_COUNT; t++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, " %s", tv_dtype_name((tv_dtype)t));
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), names, "there is no element type '%.40s'", name);
}

/* Parses a number of elements, or a shape: decimal extents of at least 1 joined by 'x'. */
static bool parse_extents(const char *text, tv_range *out)
{
    const uint64_t max = UINT64_C(1) << 32;
    out->rank = 0;
    if (parse_number(text, &out->count))
        return out->count <= max;
    out->count = 1;
    for (;;) {
        char *end;
        if (*text < '1' || *text > '9' || out->rank == TV_RANGE_RANK_MAX)
            return false;
        uint64_t extent = strtoull(text, &end, 10); /* saturates */
        if (extent > max / out->count)
            return false;
        out->dims[out->rank++] = extent;
        out->count *= extent;
        if (*end == '\0')
            return true;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
}

tv_status tv_machine_parse_range(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                 const char *text, const tv_diag_sink *sink, tv_range *out)
{
    static const char form[] = "SPACE:ADDR:LEN[:TYPE]", rest[] = ":16:s8";
    char word[WORD_MAX];
    const char *at;
    if (!strchr(text, ':') || !strchr(strchr(text, ':') + 1, ':'))
        return fail_syntax(machine, text, form, rest, sink);
    TV_TRY(tv_machine_parse_address(machine, programs, count, text, sink, &out->space, &out->addr, &at));
    if (!at || !read_word(&at, word) || !parse_extents(word, out))
        return fail_syntax(machine, text, form, rest, sink);
    TV_TRY(tv_dtype_parse(at ? at : "hex16", sink, &out->type));
    uint64_t bytes = tv_dtype_bytes(out->type, out->count);
    if (out->addr <= out->space.size && bytes <= (out->space.size - out->addr) * out->space.unit_bytes)
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_RANGE), NULL,
                   "%" PRIu64 " bytes at %s:0x%" PRIx64 " do not fit: the space has 0x%" PRIx64 " units of %" PRIu64
                   " bytes",
                   bytes, out->space.name, out->addr, out->space.size, out->space.unit_bytes);
}
