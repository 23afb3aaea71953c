/* SPDX-License-Identifier: Apache-2.0 */
/* Every one of the 2^32 OpenNPU words: legal or not as by the second decoder of spec_opennpu.h, the same instruction,
 * encoded again from its fields to the same word, and printed as a line that is not data and that assembles back to the
 * same word. Optional arguments: how many of the 4096 blocks of 2^20 words to
 * do, spread evenly (all); threads (the machine's processors). */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "isa/isa.h"
#include "spec_opennpu.h"
#include "trivet/program.h"

enum { BLOCKS = 4096, BLOCK_BITS = 20, LINES = 8192, ROWS_MAX = 128, FIELDS_MAX = 16, THREADS_MAX = 64, PRINTED = 10 };

typedef struct row {
    const char *id;
    unsigned count;
    struct {
        const char *name;
        unsigned hi, lo;
    } fields[FIELDS_MAX]; /* those that the instruction does not fix */
} row;

static row rows[ROWS_MAX];
static tv_codec *codec;
static unsigned blocks = BLOCKS;
static atomic_uint next_block, faults;
static atomic_ullong legal_words;

static void load_rows(void)
{
    tv_insn_info insn;
    for (unsigned r = 0; r < ROWS_MAX && tv_codec_insn_at(codec, r, &insn); r++) {
        rows[r].id = insn.id;
        tv_field_info field;
        for (unsigned i = 0; rows[r].count < FIELDS_MAX && tv_codec_field_at(codec, r, i, 0, &field); i++) {
            if (field.fixed)
                continue;
            unsigned n = rows[r].count++;
            rows[r].fields[n].name = field.name;
            rows[r].fields[n].hi = field.hi;
            rows[r].fields[n].lo = field.lo;
        }
    }
}

static void fault(uint32_t word, const char *what)
{
    if (atomic_fetch_add(&faults, 1) < PRINTED)
        fprintf(stderr, "%08" PRIx32 ": %s\n", word, what);
}

static bool check(uint32_t word)
{
    spec_insn want = spec_decode(word);
    int r = tv_codec_row(codec, word, NULL); /* without the reason, which costs more than all the rest */
    if (r < 0 || r >= ROWS_MAX) {
        if (want.faults == 0)
            fault(word, "rejected");
        return false;
    }
    if (want.faults || strcmp(rows[r].id, want.id) != 0) {
        fault(word, want.faults ? "accepted" : "another instruction");
        return false;
    }
    tv_field_value values[FIELDS_MAX];
    uint64_t made = 0;
    for (unsigned i = 0; i < rows[r].count; i++)
        values[i] =
            (tv_field_value){rows[r].fields[i].name, spec_bits(word, rows[r].fields[i].hi, rows[r].fields[i].lo)};
    if (tv_codec_encode(codec, rows[r].id, values, rows[r].count, NULL, &made) != TV_OK || made != word)
        fault(word, "is encoded to another word");
    return true;
}

/* Lines of legal words, to be assembled at once. */
typedef struct listing {
    unsigned count;
    size_t size, header;
    uint32_t words[LINES];
    char text[LINES * (TV_CODEC_TEXT + 1) + 64];
} listing;

static void assemble_lines(listing *l)
{
    tv_program *program = NULL;
    tv_program_options options = {.size = sizeof options, .target = "opennpu"};
    if (tv_program_assemble("words.s", l->text, l->size, &options, NULL, &program) != TV_OK ||
        tv_program_instruction_count(program) != l->count)
        fault(l->words[0], "one of the lines from this word on does not assemble");
    for (unsigned i = 0; program && i < l->count; i++)
        if (tv_program_word(program, i) != l->words[i])
            fault(l->words[i], "is assembled to another word");
    tv_program_free(program);
    l->count = 0;
    l->size = l->header;
}

static void print_line(listing *l, uint32_t word)
{
    char *line = l->text + l->size;
    if (!tv_codec_disassemble(codec, word, line) || line[0] == '.')
        fault(word, "is printed as data");
    l->size += strlen(line);
    l->text[l->size++] = '\n';
    l->words[l->count++] = word;
    if (l->count == LINES)
        assemble_lines(l);
}

static void *work(void *unused)
{
    static const char header[] = ".option proposed\n";
    listing *l = calloc(1, sizeof *l);
    (void)unused;
    if (!l) {
        fault(0, "no memory");
        return NULL;
    }
    memcpy(l->text, header, sizeof header);
    l->size = l->header = sizeof header - 1;
    for (unsigned n; (n = atomic_fetch_add(&next_block, 1)) < blocks;) {
        uint32_t first = (uint32_t)((uint64_t)n * BLOCKS / blocks) << BLOCK_BITS;
        unsigned legal = 0;
        for (uint32_t i = 0; i < UINT32_C(1) << BLOCK_BITS; i++)
            if (check(first | i)) {
                print_line(l, first | i);
                legal++;
            }
        atomic_fetch_add(&legal_words, legal);
    }
    if (l->count)
        assemble_lines(l);
    free(l);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    if (argc > 1)
        blocks = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        threads = strtol(argv[2], NULL, 10);
    blocks = blocks < 1 || blocks > BLOCKS ? BLOCKS : blocks;
    threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    if (tv_codec_new("opennpu", NULL, &codec) != TV_OK)
        return 1;
    load_rows();
    pthread_t ids[THREADS_MAX];
    long started = 0;
    while (started < threads - 1 && pthread_create(&ids[started], NULL, work, NULL) == 0)
        started++;
    work(NULL);
    for (long i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    tv_codec_free(codec);
    printf("%" PRIu64 " words, %llu legal, %u faults\n", (uint64_t)blocks << BLOCK_BITS, atomic_load(&legal_words),
           atomic_load(&faults));
    return atomic_load(&faults) != 0 || atomic_load(&legal_words) == 0;
}
