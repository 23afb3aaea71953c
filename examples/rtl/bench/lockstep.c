/* SPDX-License-Identifier: Apache-2.0 */
/* Lockstep of a design with the model (lockstep.h). Each instruction is a program of one word: the model states the
 * ranges that it writes, executes, and the design's writes must cover these ranges with the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stimulus.h"

enum { RANGES_MAX = 8, WRITES_MAX = 1 << 16, UNSUPPORTED = 255 };

typedef struct design_write {
    uint32_t space, addr, mask;
    uint8_t data[16];
} design_write;

/* Bytes that the model writes. */
typedef struct model_range {
    const char *space;
    uint64_t unit_bytes, addr, bytes;
    uint8_t *expected, *actual, *written;
} model_range;

struct lockstep {
    stimulus random;
    const char *const *spaces; /* by the design's number */
    void (*next)(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4]);
    tv_diag_sink sink;
    tv_machine *machine;
    tv_codec *codec;
    tv_program *program;
    unsigned word_bytes;
    uint64_t word, instructions, bytes, faults;
    design_write *writes;
    unsigned write_count;
    model_range ranges[RANGES_MAX];
    unsigned range_count;
    int mismatches;
};

static const char *const pccx_spaces[] = {"l2", "host", "const", "emax", NULL};
static const char *const opennpu_spaces[] = {"vx", "mem", "lut_a", "lut_b", "acc", NULL};

static void print_diagnostic(void *user, const tv_diag *diag) { tv_diag_print(user, diag, 0); }

static tv_status configure(tv_config *config, const tv_diag_sink *sink)
{
    if (strcmp(tv_config_target(config), "opennpu") == 0) {
        tv_status status = tv_config_set(config, "vector.k", "8", sink);
        return status == TV_OK ? tv_config_set(config, "mem.bytes", "4096", sink) : status;
    }
    tv_status status = tv_config_set(config, "l2.words", "1024", sink);
    return status == TV_OK ? tv_config_set(config, "host.bytes", "65536", sink) : status;
}

lockstep *lockstep_new(const char *target, unsigned seed)
{
    lockstep *l = calloc(1, sizeof *l);
    tv_config *config = NULL;
    if (!l)
        return NULL;
    int pccx = strcmp(target, "pccx") == 0;
    l->sink = (tv_diag_sink){print_diagnostic, stderr};
    l->spaces = pccx ? pccx_spaces : opennpu_spaces;
    l->next = pccx ? pccx_next : opennpu_next;
    l->word_bytes = pccx ? 8 : 4;
    l->writes = calloc(WRITES_MAX, sizeof *l->writes);
    if (!l->writes || tv_config_new(target, &l->sink, &config) != TV_OK || configure(config, &l->sink) != TV_OK ||
        tv_machine_new(config, TV_MODE_FUNCTIONAL, &l->sink, &l->machine) != TV_OK ||
        tv_codec_new(target, &l->sink, &l->codec) != TV_OK) {
        tv_config_free(config);
        lockstep_free(l);
        return NULL;
    }
    tv_config_free(config);
    l->random = (stimulus){.machine = l->machine, .codec = l->codec, .state = seed, .load_next = pccx ? 4096 : 256};
    return l;
}

static void free_ranges(lockstep *l)
{
    for (unsigned i = 0; i < l->range_count; i++)
        free(l->ranges[i].expected);
    l->range_count = 0;
}

void lockstep_free(lockstep *l)
{
    if (!l)
        return;
    free_ranges(l);
    tv_machine_free(l->machine);
    tv_codec_free(l->codec);
    tv_program_free(l->program);
    free(l->writes);
    free(l);
}

uint64_t lockstep_instructions(const lockstep *l) { return l->instructions; }

int lockstep_finish(lockstep *l)
{
    int mismatches = l->mismatches;
    if (!mismatches)
        printf("PASS: %" PRIu64 " instructions, %" PRIu64 " faults, %" PRIu64 " bytes written\n", l->instructions,
               l->faults, l->bytes);
    lockstep_free(l);
    return mismatches != 0;
}

/* ---- The model ---- */

static void load_program(lockstep *l, tv_program *program)
{
    if (tv_machine_load(l->machine, program, &l->sink) != TV_OK)
        abort();
    tv_program_free(l->program);
    l->program = program;
}

static void append_descriptor(lockstep *l, uint32_t addr, uint32_t words)
{
    char text[96];
    tv_program *program;
    int size = snprintf(text, sizeof text, " .target pccx\n wstream gemv, %u, %u\n", addr * 16, words * 16);
    if (tv_program_assemble("stream.s", text, (size_t)size, NULL, &l->sink, &program) != TV_OK)
        abort();
    load_program(l, program);
}

static void load_word(lockstep *l)
{
    tv_program_options options = {.size = sizeof options, .target = tv_machine_target(l->machine)};
    tv_program *program;
    char text[24];
    int size = snprintf(text, sizeof text, "%0*" PRIx64 "\n", (int)l->word_bytes * 2, l->word);
    if (tv_program_parse("word.hex", text, (size_t)size, &options, &l->sink, &program) != TV_OK)
        abort();
    load_program(l, program);
}

static void find_space(const lockstep *l, const char *name, tv_space *out)
{
    for (unsigned i = 0; tv_machine_space_at(l->machine, i, out); i++)
        if (strcmp(out->name, name) == 0)
            return;
    abort();
}

/* Records a range that the instruction will write; registers under the name that covers all. */
static void add_range(void *user, const tv_access *access)
{
    lockstep *l = user;
    tv_space space, base;
    if (!access->write)
        return;
    find_space(l, access->space, &space);
    base = space;
    if (space.alias_of)
        find_space(l, space.alias_of, &base);
    if (l->range_count == RANGES_MAX)
        abort();
    model_range *r = &l->ranges[l->range_count++];
    *r = (model_range){base.name,     base.unit_bytes,          access->addr * (space.unit_bytes / base.unit_bytes),
                       access->bytes, calloc(3, access->bytes), NULL,
                       NULL};
    if (!r->expected)
        abort();
    r->actual = r->expected + access->bytes;
    r->written = r->actual + access->bytes;
}

/* Executes the word. Returns the number of its fault, or 0. */
static uint32_t execute(lockstep *l)
{
    load_word(l);
    tv_machine_accesses(l->machine, &(tv_access_sink){add_range, l});
    tv_status status = tv_machine_step(l->machine, NULL);
    if (status == TV_FAULT) {
        free_ranges(l);
        return (uint32_t)strtoul(tv_machine_fault(l->machine)->code + 4, NULL, 10);
    }
    if (status != TV_OK)
        abort();
    if (l->word_bytes == 8)
        pccx_executed(&l->random, l->word);
    for (unsigned i = 0; i < l->range_count; i++) {
        model_range *r = &l->ranges[i];
        if (tv_machine_read(l->machine, r->space, r->addr, r->expected, r->bytes, &l->sink) != TV_OK)
            abort();
    }
    return 0;
}

/* ---- Comparison ---- */

static int report(lockstep *l, const char *what)
{
    char text[TV_CODEC_TEXT] = "";
    tv_codec_disassemble(l->codec, l->word, text);
    printf("MISMATCH: instruction %" PRIu64 " (%0*" PRIx64 ") %s: %s\n", l->instructions, (int)l->word_bytes * 2,
           l->word, text, what);
    l->mismatches++;
    return 1;
}

/* Puts byte `b` of a write into the range that has it. */
static int store_byte(lockstep *l, const design_write *w, unsigned b)
{
    for (unsigned i = 0; i < l->range_count; i++) {
        model_range *r = &l->ranges[i];
        uint64_t at = (w->addr - r->addr) * r->unit_bytes + b;
        if (w->addr >= r->addr && at < r->bytes && strcmp(r->space, l->spaces[w->space]) == 0) {
            r->actual[at] = w->data[b];
            r->written[at] = 1;
            return 0;
        }
    }
    char what[96];
    snprintf(what, sizeof what, "the design wrote %s[0x%" PRIx32 "], the model did not", l->spaces[w->space], w->addr);
    return report(l, what);
}

static int compare_range(lockstep *l, const model_range *r)
{
    char what[128];
    for (uint64_t i = 0; i < r->bytes; i++) {
        uint64_t addr = r->addr + i / r->unit_bytes, byte = i % r->unit_bytes;
        if (!r->written[i]) {
            snprintf(what, sizeof what, "the design did not write byte %" PRIu64 " of %s[0x%" PRIx64 "]", byte,
                     r->space, addr);
            return report(l, what);
        }
        if (r->actual[i] != r->expected[i]) {
            snprintf(what, sizeof what,
                     "byte %" PRIu64 " of %s[0x%" PRIx64 "] is 0x%02x in the design, 0x%02x in the "
                     "model",
                     byte, r->space, addr, r->actual[i], r->expected[i]);
            return report(l, what);
        }
    }
    l->bytes += r->bytes;
    return 0;
}

static int compare(lockstep *l, uint32_t fault, uint32_t expected)
{
    char what[96];
    if (fault != expected) {
        snprintf(what, sizeof what, "fault %" PRIu32 " in the design, %" PRIu32 " in the model", fault, expected);
        return report(l, what);
    }
    for (unsigned i = 0; i < l->write_count; i++)
        for (unsigned b = 0; b < 16; b++)
            if (l->writes[i].mask >> b & 1 && store_byte(l, &l->writes[i], b))
                return 1;
    for (unsigned i = 0; i < l->range_count; i++)
        if (compare_range(l, &l->ranges[i]))
            return 1;
    return 0;
}

/* ---- The interface ---- */

void lockstep_next(lockstep *l, uint32_t *kind, uint32_t *addr, uint32_t data[4])
{
    l->next(&l->random, kind, addr, data);
    if (*kind == LOCKSTEP_LOAD &&
        tv_machine_write(l->machine, l->word_bytes == 8 ? "host" : "mem", *addr * UINT64_C(16), data, 16, &l->sink))
        abort();
    if (*kind == LOCKSTEP_STREAM)
        append_descriptor(l, *addr, data[0]);
    if (*kind == LOCKSTEP_INSTRUCTION)
        l->word = data[0] | (uint64_t)data[1] << 32;
    l->write_count = 0;
}

void lockstep_write(lockstep *l, uint32_t space, uint32_t addr, const uint32_t data[4], uint32_t mask)
{
    unsigned spaces = 0;
    while (l->spaces[spaces])
        spaces++;
    if (l->write_count == WRITES_MAX)
        l->write_count--; /* a design that does not end; lockstep_hang reports it */
    design_write *w = &l->writes[l->write_count++];
    *w = (design_write){.space = space < spaces ? space : spaces - 1, .addr = addr, .mask = mask};
    memcpy(w->data, data, sizeof w->data);
}

static uint32_t execute_supported(lockstep *l)
{
    return l->word_bytes == 8 && pccx_unsupported(l->word) ? UNSUPPORTED : execute(l);
}

int lockstep_retire(lockstep *l, uint32_t fault)
{
    uint32_t expected = execute_supported(l);
    int mismatch = compare(l, fault, expected);
    free_ranges(l);
    l->instructions++;
    l->faults += expected != 0;
    return mismatch;
}

int lockstep_hang(lockstep *l, uint32_t cycles)
{
    char what[64];
    snprintf(what, sizeof what, "no end after %" PRIu32 " cycles", cycles);
    return report(l, what);
}

void lockstep_skip(lockstep *l)
{
    execute_supported(l);
    free_ranges(l);
    l->instructions++;
}

int lockstep_bad_line(lockstep *l, const char *line)
{
    char what[96];
    snprintf(what, sizeof what, "the design logged %.60s", line);
    return report(l, what);
}
