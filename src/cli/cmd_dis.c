/* SPDX-License-Identifier: Apache-2.0 */
/* trivet dis: disassemble a program or single instruction words. The output is assembly source. */
#include <inttypes.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"word", 0, "WORD", "disassemble this instruction word instead of a file; may be repeated", NULL},
    {"explain", 0, NULL, "show every field with its bits and meaning", NULL},
    {"uops", 0, NULL, "show the uops and routes of each instruction", NULL},
    {"data", 0, NULL, "also print the data segments", NULL},
};

static void print_uops(const tv_codec *codec, int insn, uint64_t word)
{
    tv_uop_info uop;
    for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &uop); i++) {
        printf("        ;   %-22s", uop.type);
        if (uop.skipped) {
            puts(" not issued: the direct FIFO carries the data");
            continue;
        }
        if (uop.route)
            printf(" route 0x%02x %-20s", uop.route, uop.route_name);
        printf(" %s, %u bits 0x%0*" PRIx64 "\n", uop.fields, uop.width, (int)(uop.width + 3) / 4, uop.packed);
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
               field.value, field.ignored ? "ignored" : field.doc);
    }
    tv_insn_info info;
    if (insn >= 0 && tv_codec_insn_at(codec, (unsigned)insn, &info))
        printf("        ;   %s (%s)\n", info.meaning, info.source);
}

static void write_fields_json(const tv_codec *codec, int insn, uint64_t word, tv_json_writer *w)
{
    tv_field_info f;
    int row = insn >= 0 ? insn : tv_codec_nearest(codec, word);
    tv_json_key(w, "fields");
    tv_json_begin_array(w);
    for (unsigned i = 0; row >= 0 && tv_codec_field_at(codec, (unsigned)row, i, word, &f); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", f.name);
        tv_json_unsigned_member(w, "hi", f.hi);
        tv_json_unsigned_member(w, "lo", f.lo);
        tv_json_unsigned_member(w, "value", f.value);
        tv_json_boolean_member(w, "ignored", f.ignored);
        tv_json_string_member(w, "doc", f.doc);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_uops_json(const tv_codec *codec, int insn, uint64_t word, tv_json_writer *w)
{
    tv_uop_info u;
    char packed[24];
    tv_json_key(w, "uops");
    tv_json_begin_array(w);
    for (unsigned i = 0; insn >= 0 && tv_codec_uop_at(codec, (unsigned)insn, i, word, &u); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "type", u.type);
        tv_json_unsigned_member(w, "route", u.route);
        tv_json_string_member(w, "route_name", u.route_name);
        tv_json_string_member(w, "fields", u.fields);
        tv_json_boolean_member(w, "skipped", u.skipped);
        snprintf(packed, sizeof packed, "0x%0*" PRIx64, (int)(u.width + 3) / 4, u.packed);
        tv_json_unsigned_member(w, "width", u.width);
        tv_json_string_member(w, "packed", u.skipped ? NULL : packed);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_word_json(const cli *c, const tv_codec *codec, uint64_t index, uint64_t word, tv_json_writer *w)
{
    char text[TV_CODEC_TEXT], number[24];
    tv_decode_fault fault;
    tv_insn_info info;
    int insn = tv_codec_decode(codec, word, &fault);
    tv_codec_disassemble(codec, word, text);
    snprintf(number, sizeof number, "0x%0*" PRIx64, (int)tv_codec_word_bits(codec) / 4, word);
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "index", index);
    tv_json_string_member(w, "word", number);
    tv_json_string_member(w, "text", text);
    tv_json_boolean_member(w, "legal", insn >= 0);
    if (insn < 0) {
        tv_json_key(w, "fault");
        tv_json_begin_object(w);
        tv_json_string_member(w, "code", fault.code);
        tv_json_string_member(w, "name", fault.name);
        tv_json_string_member(w, "message", fault.message);
        tv_json_end_object(w);
    } else if (tv_codec_insn_at(codec, (unsigned)insn, &info)) {
        tv_json_string_member(w, "id", info.id);
    }
    if (cli_has(c, "explain"))
        write_fields_json(codec, insn, word, w);
    if (cli_has(c, "uops"))
        write_uops_json(codec, insn, word, w);
    tv_json_end_object(w);
}

/* Starts {"target": …, "instructions": [ …; end_instructions_json ends it. */
static tv_json_writer *begin_instructions_json(cli *c, const char *target)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", target);
    tv_json_key(w, "instructions");
    tv_json_begin_array(w);
    return w;
}

static void end_instructions_json(tv_json_writer *w)
{
    tv_json_end_array(w);
    tv_json_end_object(w);
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

/* Parses an instruction word of the target's width. Returns CLI_INVALID after an error. */
static int parse_word(cli *c, const tv_codec *codec, const char *text, uint64_t *word)
{
    unsigned bits = tv_codec_word_bits(codec);
    char hint[48];
    if (cli_parse_number(text, word) && (bits == 64 || *word >> bits == 0))
        return CLI_OK;
    snprintf(hint, sizeof hint, "write it like --word 0x4%0*d", (int)bits / 4 - 1, 0);
    return cli_error(c, CLI_E_VALUE, hint, "'%s' is not an instruction word of %u bits", text, bits);
}

static int disassemble_words(cli *c, const tv_codec *codec, const char *target)
{
    const char *text;
    uint64_t word;
    if (!tv_codec_word_bits(codec))
        return cli_error(c, CLI_E_CONFLICT, "give a file", "programs of %s are not instruction words", target);
    for (unsigned i = 0; (text = cli_value_at(c, "word", i)); i++) {
        int result = parse_word(c, codec, text, &word);
        if (result != CLI_OK)
            return result;
        if (!c->json)
            print_word(c, codec, i, word);
    }
    if (!c->json)
        return CLI_OK;
    tv_json_writer *w = begin_instructions_json(c, target);
    for (unsigned i = 0; (text = cli_value_at(c, "word", i)) && cli_parse_number(text, &word); i++)
        write_word_json(c, codec, i, word, w);
    end_instructions_json(w);
    return CLI_OK;
}

static int run_words(cli *c)
{
    const char *target = cli_value(c, "target");
    tv_codec *codec;
    tv_target_info only;
    if (!target && tv_target_at(1, &only))
        return cli_error(c, CLI_E_TARGET, "give -t NAME; `trivet targets` lists the machines",
                         "--word needs the machine of the instruction word");
    if (!target && tv_target_at(0, &only))
        target = only.name;
    tv_status status = tv_codec_new(target, &c->sink, &codec);
    if (status != TV_OK)
        return cli_exit_status(status);
    int result = disassemble_words(c, codec, target);
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

/* The labels of .text, sorted by instruction. */
typedef struct label_list {
    tv_symbol *list;
    size_t count;
    size_t next; /* the next one to print */
} label_list;

static int compare_values(const void *a, const void *b)
{
    const tv_symbol *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

static bool collect_labels(const tv_program *program, label_list *l)
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
    qsort(l->list, l->count, sizeof *l->list, compare_values);
    return true;
}

static void print_labels(label_list *l, uint64_t index)
{
    for (; l->next < l->count && l->list[l->next].value <= index; l->next++)
        if (l->list[l->next].value == index)
            printf("%s:\n", CLI_SAFE(l->list[l->next].name));
}

/* Programs that are not instruction words: one line per entry. */
static tv_status disassemble_queue(cli *c, const tv_program *program)
{
    tv_text_buffer text = {0};
    tv_status status = TV_OK;
    tv_json_writer *w = c->json ? begin_instructions_json(c, tv_program_target(program)) : NULL;
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
        if (!tv_program_print(program, i, &text)) {
            status = TV_ERR_MEMORY;
            break;
        }
        if (!w) {
            printf("%6" PRIu64 "  ", i);
            cli_print_line(stdout, text.text);
            continue;
        }
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "index", i);
        tv_json_string_member(w, "text", text.text);
        tv_json_end_object(w);
    }
    if (w)
        end_instructions_json(w);
    free(text.text);
    return status;
}

static void write_program_json(cli *c, const tv_program *program, const tv_codec *codec)
{
    tv_json_writer *w = begin_instructions_json(c, tv_program_target(program));
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++)
        write_word_json(c, codec, i, tv_program_word(program, i), w);
    end_instructions_json(w);
}

static tv_status print_program(const cli *c, const tv_program *program, const tv_codec *codec)
{
    uint64_t count = tv_program_instruction_count(program);
    label_list labels = {0};
    if (!collect_labels(program, &labels))
        return TV_ERR_MEMORY;
    printf("        .target %s\n", tv_program_target(program));
    const char *requirement;
    for (uint64_t i = 0; (requirement = tv_program_requirement_at(program, i)); i++)
        printf("        %s\n", requirement);
    print_streams(program);
    for (uint64_t i = 0; i < count; i++) {
        print_labels(&labels, i);
        print_word(c, codec, i, tv_program_word(program, i));
    }
    print_labels(&labels, count);
    if (cli_has(c, "data"))
        print_data(program);
    free(labels.list);
    return TV_OK;
}

static tv_status disassemble_program(cli *c, const tv_program *program)
{
    tv_codec *codec;
    tv_status status = tv_codec_new(tv_program_target(program), &c->sink, &codec);
    if (status != TV_OK)
        return status;
    if (tv_codec_word_bits(codec) == 0)
        status = disassemble_queue(c, program);
    else if (c->json)
        write_program_json(c, program, codec);
    else
        status = print_program(c, program, codec);
    tv_codec_free(codec);
    return status;
}

static int run_program(cli *c)
{
    tv_program *program;
    tv_status status = cli_open_program(c, c->files[0], &program);
    if (status != TV_OK)
        return cli_exit_status(status);
    status = disassemble_program(c, program);
    tv_program_free(program);
    return cli_exit_status(status);
}

static int run_dis(cli *c)
{
    if (cli_has(c, "word"))
        return c->file_count ? cli_error(c, CLI_E_COUNT, NULL, "give a file or --word, not both") : run_words(c);
    if (c->file_count == 0)
        return cli_error(c, CLI_E_COUNT, "trivet dis FILE, or trivet dis --word 0x…", "there is no input");
    return run_program(c);
}

const cli_command cli_dis = {
    .name = "dis",
    .usage = "dis FILE | --word 0x… [--explain] [--uops]",
    .summary = "disassemble a program or an instruction word",
    .about = "Prints assembly source that assembles to the same instruction words; an illegal word is printed as data, "
             "with the reason.\n"
             "An entry of a command queue is printed as one line, with banks and offsets as BANK:OFFSET.",
    .example = "  trivet dis softmax.elf\n"
               "  trivet dis -t pccx --word 0x3010001100010000 --explain\n"
               "  trivet dis ffn.json",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tIdj",
    .files_max = 1,
    .values = "FILE",
    .run = run_dis,
};
