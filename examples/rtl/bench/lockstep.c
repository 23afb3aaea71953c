/* SPDX-License-Identifier: Apache-2.0 */
/* Lockstep of a design with the model (lockstep.h): random events for both, and a scoreboard (trivet/cosim.h) that
 * compares what they do. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stimulus.h"

enum { UNSUPPORTED = 255 };

struct lockstep {
    stimulus random;
    const char *const *spaces; /* by the design's number */
    void (*next)(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4]);
    tv_diag_sink sink;
    tv_machine *machine;
    tv_codec *codec;
    tv_scoreboard *board;
    tv_rules *rules;
    unsigned word_bytes;
    uint64_t word;
    uint64_t instructions, unsupported; /* of all; those that the design leaves out, which the model does not execute */
    int executes, issued, left_out;     /* the current instruction, or the last one */
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

static void print_mismatch(void *user, const tv_mismatch *m)
{
    lockstep *l = user;
    char text[TV_CODEC_TEXT] = "";
    tv_codec_disassemble(l->codec, l->word, text);
    printf("MISMATCH: instruction %" PRIu64 " (%0*" PRIx64 ") %s: %s: %s\n", m->tag, (int)l->word_bytes * 2, l->word,
           text, m->name, m->message);
    l->mismatches++;
}

/* A mismatch that the scoreboard does not see. */
static int report(lockstep *l, const char *name, const char *text)
{
    tv_mismatch m = {.count = 1, .tag = l->instructions - (!l->executes && l->instructions)};
    snprintf(m.name, sizeof m.name, "%s", name);
    snprintf(m.message, sizeof m.message, "%s", text);
    print_mismatch(l, &m);
    return 1;
}

/* The pccx design reports these inner values of all elements. */
static const char rules[] = "[rule GEMV sum]\nrequired = yes\n"
                            "[rule CVO_* argument]\nrequired = yes\n"
                            "[rule CVO_REDUCE_SUM sum]\nrequired = yes\n";

static tv_status open_board(lockstep *l)
{
    tv_status status = tv_rules_parse("rules", rules, sizeof rules - 1, &l->sink, &l->rules);
    if (status != TV_OK)
        return status;
    tv_scoreboard_options options = {.size = sizeof options,
                                     .rules = l->rules,
                                     .mismatch = print_mismatch,
                                     .user = l,
                                     .values = l->word_bytes == 8,
                                     .cycle_slack = TV_CYCLE_UNKNOWN,
                                     .plant = getenv("LOCKSTEP_SELF_TEST") != NULL};
    return tv_scoreboard_new(l->machine, &options, &l->board);
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
    if (tv_config_new(target, &l->sink, &config) != TV_OK || configure(config, &l->sink) != TV_OK ||
        tv_machine_new(config, TV_MODE_FUNCTIONAL, &l->sink, &l->machine) != TV_OK ||
        tv_codec_new(target, &l->sink, &l->codec) != TV_OK || open_board(l) != TV_OK) {
        tv_config_free(config);
        lockstep_free(l);
        return NULL;
    }
    tv_config_free(config);
    l->random = (stimulus){.machine = l->machine, .codec = l->codec, .state = seed, .load_next = pccx ? 4096 : 256};
    return l;
}

void lockstep_free(lockstep *l)
{
    if (!l)
        return;
    tv_scoreboard_free(l->board);
    tv_rules_free(l->rules);
    tv_machine_free(l->machine);
    tv_codec_free(l->codec);
    free(l);
}

void lockstep_select(lockstep *l, const char *name) { l->random.selection = name; }

uint64_t lockstep_instructions(const lockstep *l) { return l->instructions; }

int lockstep_finish(lockstep *l)
{
    tv_scoreboard_counts counts;
    int mismatches = l->mismatches;
    tv_scoreboard_count(l->board, &counts);
    if (!mismatches)
        printf("PASS: %" PRIu64 " instructions, %" PRIu64 " faults, %" PRIu64 " bytes written\n", l->instructions,
               counts.faults + l->unsupported, counts.bytes);
    lockstep_free(l);
    return mismatches != 0;
}

/* ---- Events ---- */

/* A descriptor of the weight stream, through the register window. */
static void append_descriptor(lockstep *l, uint32_t addr, uint32_t words)
{
    const uint32_t registers[] = {addr * 16, 0, words * 16, 0, 1}; /* of 32 bits, from STREAM_ADDR_LO to STREAM_PUSH */
    uint8_t bytes[4 * 5];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(registers[i / 4] >> i % 4 * 8);
    if (tv_machine_write(l->machine, "mmio", TV_WINDOW_STREAM_ADDR_LO, bytes, sizeof bytes, &l->sink) != TV_OK)
        abort();
}

void lockstep_event(lockstep *l, uint32_t kind, uint32_t addr, const uint32_t data[4])
{
    if (kind == LOCKSTEP_LOAD &&
        tv_machine_write(l->machine, l->word_bytes == 8 ? "host" : "mem", addr * UINT64_C(16), data, 16, &l->sink))
        abort();
    if (kind == LOCKSTEP_STREAM)
        append_descriptor(l, addr, data[0]);
    if (kind != LOCKSTEP_INSTRUCTION)
        return;
    l->word = data[0] | (uint64_t)data[1] << 32;
    l->executes = 1;
    l->issued = 0;
    l->left_out = l->word_bytes == 8 && pccx_unsupported(l->word);
}

void lockstep_next(lockstep *l, uint32_t *kind, uint32_t *addr, uint32_t data[4])
{
    l->next(&l->random, kind, addr, data);
    lockstep_event(l, *kind, *addr, data);
}

/* Executes the instruction on the model, once. The number of the instruction is its tag. */
static void issue(lockstep *l)
{
    if (!l->issued && tv_scoreboard_issue(l->board, l->instructions, l->word) != TV_OK)
        abort();
    l->issued = 1;
}

void lockstep_write(lockstep *l, uint32_t space, uint32_t addr, const uint32_t data[4], uint32_t mask)
{
    unsigned spaces = 0;
    uint8_t bytes[16], enables[2] = {(uint8_t)mask, (uint8_t)(mask >> 8)};
    while (l->spaces[spaces])
        spaces++;
    if (!mask || (!l->executes && !l->instructions))
        return;
    if (l->left_out) {
        report(l, l->executes ? "extra-write" : "late-write", "the design wrote, and leaves the instruction out");
        return;
    }
    if (l->executes)
        issue(l);
    memcpy(bytes, data, sizeof bytes);
    if (tv_scoreboard_write(l->board, l->instructions - !l->executes, l->spaces[space < spaces ? space : spaces - 1],
                            addr, bytes, 16, enables) != TV_OK)
        abort();
}

void lockstep_value(lockstep *l, uint32_t kind, uint32_t element, uint32_t bits)
{
    static const char *const names[] = {
        [LOCKSTEP_SUM] = "sum", [LOCKSTEP_F32_SUM] = "sum", [LOCKSTEP_ARGUMENT] = "argument"};
    float real;
    memcpy(&real, &bits, sizeof real);
    if (kind > LOCKSTEP_ARGUMENT || !l->executes)
        return;
    tv_inner_value value = {names[kind], element, kind == LOCKSTEP_SUM, (int32_t)bits, (double)real};
    if (l->left_out)
        return;
    issue(l);
    if (tv_scoreboard_value(l->board, l->instructions, &value) != TV_OK)
        abort();
}

static int retire_left_out(lockstep *l, uint32_t fault)
{
    if (fault != UNSUPPORTED)
        report(l, "wrong-trap", "the design leaves the instruction out without fault 255");
    l->unsupported++;
    l->instructions++;
    l->executes = 0;
    return l->mismatches != 0;
}

int lockstep_retire(lockstep *l, uint32_t fault)
{
    char code[] = "TV-P000";
    tv_scoreboard_counts before, after;
    if (!l->executes)
        return l->instructions && report(l, "no-issue", "the design retired an instruction that was not issued");
    if (l->left_out)
        return retire_left_out(l, fault);
    issue(l);
    code[3] = l->word_bytes == 8 ? 'P' : 'N';
    for (unsigned i = 6, rest = fault % 1000; i > 3; i--, rest /= 10)
        code[i] = (char)('0' + rest % 10);
    tv_scoreboard_count(l->board, &before);
    if ((fault && tv_scoreboard_trap(l->board, l->instructions, code) != TV_OK) ||
        tv_scoreboard_retire(l->board, l->instructions, TV_CYCLE_UNKNOWN) != TV_OK)
        abort();
    tv_scoreboard_count(l->board, &after);
    if (l->word_bytes == 8 && after.faults == before.faults)
        pccx_executed(&l->random, l->word);
    l->instructions++;
    l->executes = 0;
    return l->mismatches != 0;
}

int lockstep_hang(lockstep *l, uint32_t cycles)
{
    if (l->left_out)
        return report(l, "hang", "the instruction, which the design leaves out, does not end");
    issue(l);
    if (tv_scoreboard_hang(l->board, l->instructions, cycles) != TV_OK)
        abort();
    return 1;
}

void lockstep_skip(lockstep *l)
{
    tv_commit commit;
    if (!l->left_out) {
        if (tv_machine_execute(l->machine, l->word, 0, &commit) != TV_OK)
            abort();
        if (l->word_bytes == 8 && !commit.fault)
            pccx_executed(&l->random, l->word);
    }
    l->instructions++;
    l->executes = 0;
}

void lockstep_seed(lockstep *l,
                   void (*write)(void *user, const char *space, uint64_t addr, const void *data, size_t bytes),
                   void *user)
{
    tv_state_value value;
    if (tv_scoreboard_seed(l->board, &(tv_seed_sink){write, user}) != TV_OK)
        abort();
    for (unsigned i = 0; tv_machine_state_at(l->machine, i, &value); i++)
        if (strcmp(value.name, "column") == 0 && value.text)
            write(user, "column", 0, &(uint8_t){(uint8_t)strtoul(value.text, NULL, 0)}, 1);
    if (l->word_bytes == 8)
        write(user, "stream", 0, &(uint32_t){(uint32_t)l->random.stream_words}, 4);
}

int lockstep_bad_line(lockstep *l, const char *line)
{
    char text[96];
    snprintf(text, sizeof text, "the design logged %.60s", line);
    return report(l, "damaged-log", text);
}
