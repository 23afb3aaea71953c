/* SPDX-License-Identifier: Apache-2.0 */
/* trivet dis: disassemble a program or single words. What it prints is assembly source again. */
#include <inttypes.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"word", 0, "WORD", "disassemble this word instead of a file; may be repeated", NULL},
    {"explain", 0, NULL, "show every field with its bits and meaning", NULL},
    {"uops", 0, NULL, "show the uops and routes that each instruction becomes", NULL},
    {"data", 0, NULL, "print the data segments, too", NULL},
};

static void print_uops(const tv_codec *codec, int insn, uint64_t word)
{
    tv_uop_info uop;
    for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &uop); i++) {
        printf("        ;   %-22s", uop.type);
        if (uop.skipped)
            printf(" not issued: the direct FIFO carries the data");
        else if (uop.route)
            printf(" route 0x%02x %-20s %s", uop.route, uop.route_name, uop.fields);
        else
            printf(" %s", uop.fields);
        putchar('\n');
    }
}

static void print_fields(const tv_codec *codec, int insn, uint64_t word)
{
    tv_field_info field;
    int row = insn >= 0 ? insn : tv_codec_nearest(codec, word);
    for (unsigned i = 0; row >= 0 && tv_codec_field_at(codec, (unsigned)row, i, word, &field); i++) {
        char bits[16];
        snprintf(bits, sizeof bits, field.hi == field.lo ? "[%u]" : "[%u:%u]", field.hi, field.lo);
        printf("        ;   %-8s %-16s = 0x%-6" PRIx64 " %8" PRIu64 "  %s\n", bits, field.name, field.value,
               field.value, field.ignored ? "not looked at" : field.doc);
    }
    tv_insn_info info;
    if (insn >= 0 && tv_codec_insn_at(codec, (unsigned)insn, &info))
        printf("        ;   %s (%s)\n", info.meaning, info.source);
}

static json_t *word_json(const cli *c, const tv_codec *codec, uint64_t index, uint64_t word)
{
    char text[TV_CODEC_TEXT], number[24];
    tv_decode_fault why;
    int insn = tv_codec_decode(codec, word, &why);
    tv_codec_disassemble(codec, word, text);
    snprintf(number, sizeof number, "0x%0*" PRIx64, (int)tv_codec_word_bits(codec) / 4, word);
    json_t *object =
        json_pack("{s:I, s:s, s:s, s:b}", "index", (json_int_t)index, "word", number, "text", text, "legal", insn >= 0);
    if (insn < 0)
        json_object_set_new(object, "fault",
                            json_pack("{s:s, s:s, s:s}", "code", why.code, "name", why.name, "message", why.message));
    tv_insn_info info;
    if (insn >= 0 && tv_codec_insn_at(codec, (unsigned)insn, &info))
        json_object_set_new(object, "id", json_string(info.id));
    if (cli_has(c, "explain")) {
        json_t *fields = json_array();
        tv_field_info f;
        int row = insn >= 0 ? insn : tv_codec_nearest(codec, word);
        for (unsigned i = 0; row >= 0 && tv_codec_field_at(codec, (unsigned)row, i, word, &f); i++)
            json_array_append_new(fields, json_pack("{s:s, s:i, s:i, s:I, s:b, s:s}", "name", f.name, "hi", (int)f.hi,
                                                    "lo", (int)f.lo, "value", (json_int_t)f.value, "ignored", f.ignored,
                                                    "doc", f.doc));
        json_object_set_new(object, "fields", fields);
    }
    if (cli_has(c, "uops")) {
        json_t *uops = json_array();
        tv_uop_info u;
        for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &u); i++)
            json_array_append_new(uops, json_pack("{s:s, s:i, s:o, s:s, s:b}", "type", u.type, "route", (int)u.route,
                                                  "route_name", cli_string(u.route_name), "fields", u.fields, "skipped",
                                                  u.skipped));
        json_object_set_new(object, "uops", uops);
    }
    return object;
}

static void print_word(const cli *c, const tv_codec *codec, uint64_t index, uint64_t word)
{
    char text[TV_CODEC_TEXT];
    tv_codec_disassemble(codec, word, text);
    int insn = tv_codec_decode(codec, word, NULL);
    printf("        %-64s ; %" PRIu64 ": %0*" PRIx64 "\n", text, index, (int)tv_codec_word_bits(codec) / 4, word);
    if (cli_has(c, "explain"))
        print_fields(codec, insn, word);
    if (cli_has(c, "uops"))
        print_uops(codec, insn, word);
}

static int dis_words(cli *c)
{
    const char *target = cli_value(c, "target"), *text;
    tv_codec *codec;
    tv_target_info first;
    if (!target && tv_target_at(1, &first))
        return cli_wrong(c, "give -t NAME; `trivet targets` lists the machines",
                         "--word does not say which machine the word is for");
    if (!target && tv_target_at(0, &first))
        target = first.name;
    tv_status status = tv_codec_new(target, &c->sink, &codec);
    if (status != TV_OK)
        return cli_exit_status(status);
    int result =
        tv_codec_word_bits(codec) ? CLI_DONE : cli_wrong(c, "give a file", "programs of %s are not words", target);
    json_t *list = json_array();
    for (unsigned i = 0; result == CLI_DONE && (text = cli_value_at(c, "word", i)); i++) {
        uint64_t word;
        if (!cli_parse_number(text, &word) || (tv_codec_word_bits(codec) < 64 && word >> tv_codec_word_bits(codec))) {
            char hint[48];
            snprintf(hint, sizeof hint, "write it like --word 0x4%0*d", (int)tv_codec_word_bits(codec) / 4 - 1, 0);
            result = cli_wrong(c, hint, "'%s' is not a word of %u bits", text, tv_codec_word_bits(codec));
            break;
        }
        if (c->json)
            json_array_append_new(list, word_json(c, codec, i, word));
        else
            print_word(c, codec, i, word);
    }
    if (c->json && result == CLI_DONE)
        cli_print_json(c, json_pack("{s:s, s:O}", "target", target, "instructions", list));
    json_decref(list);
    tv_codec_free(codec);
    return result;
}

/* ---- Whole programs ---- */

static void print_streams(const tv_program *program)
{
    tv_descriptor d;
    const char *name;
    for (unsigned k = 0; (name = tv_program_stream_name(program, k)); k++)
        for (uint64_t i = 0; tv_program_descriptor_at(program, k, i, &d); i++)
            printf("        wstream %s, 0x%" PRIx64 ", 0x%" PRIx64 "\n", name, d.addr, d.bytes);
}

static void print_data(const tv_program *program)
{
    tv_segment s;
    for (uint64_t i = 0; tv_program_segment_at(program, i, &s); i++) {
        printf("        .data 0x%" PRIx64 "\n", s.addr);
        if (!s.bytes) {
            printf("        .zero 0x%" PRIx64 "\n", s.size);
            continue;
        }
        for (uint64_t at = 0; at < s.size; at++)
            printf(at % 16 ? ",0x%02x" : at ? "\n        .byte 0x%02x" : "        .byte 0x%02x", s.bytes[at]);
        putchar('\n');
    }
}

/* The labels of .text by address, so that one walk prints them. */
typedef struct labels {
    tv_symbol *list;
    size_t count, next;
} labels;

static int by_value(const void *a, const void *b)
{
    const tv_symbol *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

static bool collect_labels(const tv_program *program, labels *l)
{
    tv_symbol s;
    size_t total = 0;
    while (tv_program_symbol_at(program, total, &s))
        total++;
    l->list = calloc(total + 1, sizeof *l->list);
    if (!l->list)
        return false;
    for (size_t i = 0; i < total; i++)
        if (tv_program_symbol_at(program, i, &s) && s.kind == TV_SYMBOL_TEXT)
            l->list[l->count++] = s;
    qsort(l->list, l->count, sizeof *l->list, by_value);
    return true;
}

static void print_labels(labels *l, uint64_t index)
{
    for (; l->next < l->count && l->list[l->next].value <= index; l->next++)
        if (l->list[l->next].value == index)
            printf("%s:\n", l->list[l->next].name);
}

/* A program that is not words: a line for each instruction. */
static void dis_lines(cli *c, const tv_program *program)
{
    tv_text_buffer text = {0};
    json_t *list = json_array();
    for (uint64_t i = 0; tv_program_print(program, i, &text); i++)
        if (c->json)
            json_array_append_new(list, json_pack("{s:I, s:o}", "index", (json_int_t)i, "text", cli_string(text.text)));
        else
            printf("%6" PRIu64 "  %s\n", i, text.text);
    if (c->json)
        cli_print_json(c, json_pack("{s:s, s:O}", "target", tv_program_target(program), "instructions", list));
    json_decref(list);
    free(text.text);
}

static int dis_program(cli *c)
{
    tv_program *program;
    tv_codec *codec = NULL;
    tv_status status = cli_open_program(c, c->files[0], &program);
    if (status != TV_OK)
        return cli_exit_status(status);
    tv_text_buffer first = {0};
    bool lines = tv_program_print(program, 0, &first);
    free(first.text);
    if (lines) {
        dis_lines(c, program);
        tv_program_free(program);
        return CLI_DONE;
    }
    status = tv_codec_new(tv_program_target(program), &c->sink, &codec);
    uint64_t count = tv_program_instruction_count(program);
    labels marks = {0};
    if (status == TV_OK && !collect_labels(program, &marks))
        status = TV_ERR_MEMORY;
    if (status == TV_OK && c->json) {
        json_t *list = json_array();
        for (uint64_t i = 0; i < count; i++)
            json_array_append_new(list, word_json(c, codec, i, tv_program_word(program, i)));
        cli_print_json(c, json_pack("{s:s, s:o}", "target", tv_program_target(program), "instructions", list));
    } else if (status == TV_OK) {
        printf("        .target %s\n", tv_program_target(program));
        print_streams(program);
        for (uint64_t i = 0; i < count; i++) {
            print_labels(&marks, i);
            print_word(c, codec, i, tv_program_word(program, i));
        }
        print_labels(&marks, count);
        if (cli_has(c, "data"))
            print_data(program);
    }
    free(marks.list);
    tv_codec_free(codec);
    tv_program_free(program);
    return cli_exit_status(status);
}

static int run(cli *c)
{
    if (cli_has(c, "word"))
        return c->file_count ? cli_wrong(c, NULL, "give a file or --word, not both") : dis_words(c);
    if (c->file_count == 0)
        return cli_wrong(c, "trivet dis FILE, or trivet dis --word 0x…", "nothing to disassemble");
    return dis_program(c);
}

const cli_command cli_dis = {
    .name = "dis",
    .usage = "dis FILE | --word 0x… [--explain] [--uops]",
    .summary = "disassemble a program or a word",
    .about = "Prints assembly source that assembles back to the same words; what is not an instruction is printed as "
             "raw data with the reason.\n"
             "Of a command queue each entry is printed as one line, banks and offsets as BANK:OFFSET.",
    .example = "  trivet dis softmax.elf\n"
               "  trivet dis -t pccx --word 0x3010001100010000 --explain\n"
               "  trivet dis ffn.json",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tIdj",
    .most = 1,
    .values = "FILE",
    .run = run,
};
