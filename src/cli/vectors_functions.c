/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures of functions: the SFU of pccx on every BF16 number, and the operations of OpenNPU on corners. */
#include <ctype.h>

#include "cli/vectors.h"

/* ---- pccx ---- */

static const struct {
    const char *name;
    tv_sfu function;
} functions[] = {{"exp", TV_SFU_EXP}, {"sqrt", TV_SFU_SQRT}, {"gelu", TV_SFU_GELU},
                 {"sin", TV_SFU_SIN}, {"cos", TV_SFU_COS},   {"recip", TV_SFU_RECIP}};

void vectors_sfu(vectors_writer *w, const char *argument)
{
    enum { ALL = 1 << 16 };
    for (size_t k = 0; k < CLI_COUNTOF(functions); k++) {
        if (strcmp(functions[k].name, argument) != 0)
            continue;
        vectors_begin(w, "all", "every BF16 number", "a result a word; word i is of the number with the bits i");
        uint64_t *result = vectors_add(w, VECTORS_OUTPUT, "result", "bf16", 16, 0, ALL, "the function of the bits");
        for (uint32_t i = 0; result && i < ALL; i++) {
            uint16_t x = (uint16_t)i, y;
            w->status = tv_unit_sfu(&(tv_sfu_op){.function = functions[k].function}, &x, 1, NULL, NULL, &y);
            result[i] = y;
        }
        vectors_end(w);
    }
}

/* ---- OpenNPU ---- */

/* Corners of integers of all widths, then of binary32. */
static const uint32_t corners[] = {0,          1,          2,          0x7F,       0x80,       0xFF,       0x7FFF,
                                   0x8000,     0xFFFF,     0x12345678, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFF81,
                                   0x00800000, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};

enum { CORNERS = CLI_COUNTOF(corners), THIRD = 5 };

/* One operation: `word` of an instruction that writes lanes. */
static void write_operation(vectors_writer *w, const tv_config *config, const tv_insn_info *info, uint32_t word)
{
    static const uint32_t thirds[THIRD] = {0, 3, 0xFFFFFFFB, 0x3F000000, 0x7FFFFFFF};
    char name[64];
    snprintf(name, sizeof name, "%s", info->id);
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    vectors_begin(w, name, info->meaning, "21 lanes a row, lane 0 first; a reduction is of a row");
    uint64_t *insn = vectors_add(w, VECTORS_INPUT, "insn", "uint32", 32, 0, 1, "the instruction word"),
             *rs1 = vectors_add(w, VECTORS_INPUT, "rs1", "uint32", 32, CORNERS, CORNERS, "lanes of the first source"),
             *rs2 = vectors_add(w, VECTORS_INPUT, "rs2", "uint32", 32, CORNERS, CORNERS, "of the second"),
             *rs3 = vectors_add(w, VECTORS_INPUT, "rs3", "uint32", 32, CORNERS, CORNERS, "of the third"),
             *rd = vectors_add(w, VECTORS_OUTPUT, "rd", "uint32", 32, CORNERS, CORNERS, "of the destination");
    if (insn)
        insn[0] = word;
    for (unsigned row = 0; rd && row < CORNERS && w->status == TV_OK; row++) {
        uint32_t a[CORNERS], b[CORNERS], c[CORNERS], d[CORNERS];
        for (unsigned i = 0; i < CORNERS; i++) {
            a[i] = corners[row];
            b[i] = corners[i];
            c[i] = thirds[(row + i) % THIRD];
        }
        w->status = tv_unit_lanes(config, word, CORNERS, a, b, c, d);
        for (unsigned i = 0; i < CORNERS; i++) {
            rs1[row * CORNERS + i] = a[i];
            rs2[row * CORNERS + i] = b[i];
            rs3[row * CORNERS + i] = c[i];
            rd[row * CORNERS + i] = d[i];
        }
    }
    vectors_end(w);
}

void vectors_opennpu(vectors_writer *w, const char *argument)
{
    tv_codec *codec = NULL;
    tv_config *config = NULL;
    tv_insn_info info;
    (void)argument;
    w->status = tv_codec_new("opennpu", &w->c->sink, &codec);
    if (w->status == TV_OK)
        w->status = tv_config_new("opennpu", &w->c->sink, &config);
    for (unsigned i = 0; w->status == TV_OK && tv_codec_insn_at(codec, i, &info); i++) {
        uint64_t word;
        uint32_t lanes[3] = {0, 0, 0}, out;
        if (tv_codec_encode(codec, info.id, NULL, 0, NULL, &word) == TV_OK &&
            tv_unit_lanes(config, (uint32_t)word, 1, &lanes[0], &lanes[1], &lanes[2], &out) == TV_OK)
            write_operation(w, config, &info, (uint32_t)word);
    }
    tv_codec_free(codec);
    tv_config_free(config);
}
