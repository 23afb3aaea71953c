/* SPDX-License-Identifier: Apache-2.0 */
/* trivet isa: print an instruction set from its tables. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"json-schema", 0, NULL, "print the JSON Schema of the target's program files", NULL},
};

static void print_fields(const tv_codec *codec, unsigned insn)
{
    tv_field_info f;
    for (unsigned i = 0; tv_codec_field_at(codec, insn, i, 0, &f); i++) {
        char bits[16], value[32] = "";
        snprintf(bits, sizeof bits, f.hi == f.lo ? "[%u]" : "[%u:%u]", f.hi, f.lo);
        if (f.fixed)
            snprintf(value, sizeof value, " = %llu", (unsigned long long)f.fixed_value);
        else if (f.reserved)
            snprintf(value, sizeof value, " = 0");
        printf("    %-8s %2u  %s%-*s  %s\n", bits, f.hi - f.lo + 1, f.name, (int)(22 - strlen(f.name)), value,
               f.ignored ? "ignored" : f.doc);
    }
}

/* Size of the text of the allowed values of any parameter; longer texts are cut. */
enum { VALUES_SIZE = 256 };

static void append_text(char text[VALUES_SIZE], const char *separator, const char *value)
{
    size_t n = strlen(text);
    snprintf(text + n, VALUES_SIZE - n, "%s%s", separator, value);
}

/* Formats the allowed values: "0 to 16777216", "2, 4, 8, 16 or 32", "erf or tanh"; "" if the type suffices. */
static void format_values(const tv_parameter_info *p, char text[VALUES_SIZE])
{
    text[0] = '\0';
    for (uint64_t i = 0, left = p->allowed; left; i++, left >>= 1)
        if (left & 1) {
            char number[16];
            snprintf(number, sizeof number, "%u", (unsigned)i);
            append_text(text, text[0] == '\0' ? "" : left == 1 ? " or " : ", ", number);
        }
    for (unsigned i = 0; p->enum_names && p->enum_names[i]; i++)
        append_text(text, i == 0 ? "" : p->enum_names[i + 1] ? ", " : " or ", p->enum_names[i]);
    if (text[0] == '\0' && strcmp(p->type, "integer") == 0)
        snprintf(text, VALUES_SIZE, p->max == INT64_MAX ? "%llu or more" : "%llu to %llu", (unsigned long long)p->min,
                 (unsigned long long)p->max);
}

static void print_parameters(const tv_codec *codec, unsigned insn)
{
    tv_parameter_info p;
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, &p); i++) {
        char values[VALUES_SIZE], presence[64];
        format_values(&p, values);
        snprintf(presence, sizeof presence,
                 p.required        ? "required"
                 : p.default_value ? "default %s"
                                   : "optional",
                 p.default_value);
        printf("    %s%-*s %-8s %-14s %s%s%s%s%s%s%s\n", p.member ? "  " : "", p.member ? 16 : 18, p.name, p.type,
               presence, p.doc, values[0] ? "; " : "", values, p.unit[0] ? " (" : "", p.unit, p.unit[0] ? ")" : "",
               p.addition ? "; x-trivet" : "");
    }
}

static void print_insn(const tv_codec *codec, unsigned i, const tv_insn_info *info)
{
    if (!info->format) {
        printf("%s\n  %s\n  engine %s, since version %s%s%s%s; %s\n", info->id, info->meaning, info->unit, info->since,
               info->addition ? " (x-trivet)" : "", info->deprecated_since ? ", deprecated since " : "",
               info->deprecated_since ? info->deprecated_since : "", info->source);
        print_parameters(codec, i);
        putchar('\n');
        return;
    }
    printf("%s\n  %s%s\n  unit %s, format %s; %s\n", info->form, info->meaning, info->proposed ? "; proposed" : "",
           info->unit, info->format, info->source);
    print_fields(codec, i);
    tv_uop_info u;
    for (unsigned k = 0; tv_codec_uop_at(codec, i, k, 0, &u); k++) {
        printf("    uop %s", u.type);
        if (u.route)
            printf(", route 0x%02x %s", u.route, u.route_name);
        putchar('\n');
    }
    putchar('\n');
}

/* ---- JSON ---- */

static void write_parameters_json(const tv_codec *codec, unsigned insn, tv_json_writer *w)
{
    tv_parameter_info p;
    tv_json_key(w, "parameters");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, &p); i++) {
        char values[VALUES_SIZE];
        format_values(&p, values);
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", p.name);
        tv_json_string_member(w, "type", p.type);
        tv_json_boolean_member(w, "required", p.required);
        tv_json_boolean_member(w, "common", p.common);
        tv_json_boolean_member(w, "member", p.member);
        tv_json_string_member(w, "default", p.default_value);
        tv_json_string_member(w, "unit", p.unit);
        tv_json_string_member(w, "doc", p.doc);
        tv_json_string_member(w, "x-trivet", p.addition);
        if (values[0])
            tv_json_string_member(w, "values", values);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_entry_json(const tv_codec *codec, unsigned i, const tv_insn_info *info, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "id", info->id);
    tv_json_string_member(w, "unit", info->unit);
    tv_json_string_member(w, "meaning", info->meaning);
    tv_json_string_member(w, "source", info->source);
    tv_json_string_member(w, "since", info->since);
    tv_json_string_member(w, "deprecated_since", info->deprecated_since);
    tv_json_string_member(w, "x-trivet", info->addition);
    write_parameters_json(codec, i, w);
    tv_json_end_object(w);
}

static void write_fields_json(const tv_codec *codec, unsigned insn, tv_json_writer *w)
{
    tv_field_info f;
    tv_json_key(w, "fields");
    tv_json_begin_array(w);
    for (unsigned k = 0; tv_codec_field_at(codec, insn, k, 0, &f); k++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", f.name);
        tv_json_unsigned_member(w, "hi", f.hi);
        tv_json_unsigned_member(w, "lo", f.lo);
        tv_json_boolean_member(w, "reserved", f.reserved);
        tv_json_boolean_member(w, "ignored", f.ignored);
        tv_json_string_member(w, "doc", f.doc);
        if (f.fixed)
            tv_json_unsigned_member(w, "value", f.fixed_value);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_uops_json(const tv_codec *codec, unsigned insn, tv_json_writer *w)
{
    tv_uop_info u;
    tv_json_key(w, "uops");
    tv_json_begin_array(w);
    for (unsigned k = 0; tv_codec_uop_at(codec, insn, k, 0, &u); k++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "type", u.type);
        tv_json_unsigned_member(w, "route", u.route);
        tv_json_string_member(w, "route_name", u.route_name);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_insn_json(const tv_codec *codec, unsigned i, const tv_insn_info *info, tv_json_writer *w)
{
    if (!info->format) {
        write_entry_json(codec, i, info, w);
        return;
    }
    tv_json_begin_object(w);
    tv_json_string_member(w, "id", info->id);
    tv_json_string_member(w, "mnemonic", info->mnemonic);
    tv_json_string_member(w, "form", info->form);
    tv_json_string_member(w, "format", info->format);
    tv_json_string_member(w, "unit", info->unit);
    tv_json_string_member(w, "meaning", info->meaning);
    tv_json_string_member(w, "source", info->source);
    tv_json_boolean_member(w, "proposed", info->proposed);
    write_fields_json(codec, i, w);
    write_uops_json(codec, i, w);
    tv_json_end_object(w);
}

/* One kind of keyword at a time, in order of its first occurrence. */
typedef struct keyword_list {
    tv_json_writer *w;
    tv_keyword_kind kind;                           /* the kind to write */
    tv_keyword_kind order[TV_KEYWORD_FUNCTION + 1]; /* the kinds, in order of their first occurrence */
    unsigned kind_count;
} keyword_list;

static void record_kind(void *user, tv_keyword_kind kind, const char *word, unsigned count)
{
    keyword_list *list = user;
    (void)word;
    (void)count;
    for (unsigned i = 0; i < list->kind_count; i++)
        if (list->order[i] == kind)
            return;
    list->order[list->kind_count++] = kind;
}

/* Registers are written with their number. */
static void write_keyword(void *user, tv_keyword_kind kind, const char *word, unsigned count)
{
    keyword_list *list = user;
    if (kind != list->kind)
        return;
    if (kind == TV_KEYWORD_REGISTER)
        tv_json_unsigned_member(list->w, word, count);
    else
        tv_json_write_string(list->w, word);
}

/* The keywords of the assembly language, by kind. */
static void write_keywords_json(const cli *c, const char *target, tv_json_writer *w)
{
    static const char *const kinds[] = {
        [TV_KEYWORD_MNEMONIC] = "mnemonics", [TV_KEYWORD_SUFFIX] = "suffixes",  [TV_KEYWORD_REGISTER] = "registers",
        [TV_KEYWORD_BRACKET] = "brackets",   [TV_KEYWORD_OPERAND] = "operands", [TV_KEYWORD_OPERAND_KEY] = "keywords",
        [TV_KEYWORD_FLAG] = "flags",         [TV_KEYWORD_STREAM] = "streams",   [TV_KEYWORD_DIRECTIVE] = "directives",
        [TV_KEYWORD_FUNCTION] = "functions"};
    keyword_list list = {.w = w};
    tv_assembly_keywords(target, &(tv_keyword_sink){record_kind, &list}, &c->sink);
    tv_json_key(w, "assembly");
    tv_json_begin_object(w);
    for (unsigned i = 0; i < list.kind_count; i++) {
        list.kind = list.order[i];
        tv_json_key(w, kinds[list.kind]);
        if (list.kind == TV_KEYWORD_REGISTER)
            tv_json_begin_object(w);
        else
            tv_json_begin_array(w);
        tv_assembly_keywords(target, &(tv_keyword_sink){write_keyword, &list}, &c->sink);
        if (list.kind == TV_KEYWORD_REGISTER)
            tv_json_end_object(w);
        else
            tv_json_end_array(w);
    }
    tv_json_end_object(w);
}

/* ---- Commands ---- */

static void write_targets_json(cli *c)
{
    tv_target_info t;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_target_at(i, &t); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "target", t.name);
        tv_json_string_member(w, "title", t.title);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static int list_targets(cli *c)
{
    tv_target_info t;
    if (c->json) {
        write_targets_json(c);
        return CLI_OK;
    }
    for (unsigned i = 0; tv_target_at(i, &t); i++)
        printf("%-10s %s\n", t.name, t.title);
    printf("\n`trivet isa TARGET` shows the instructions of one.\n");
    return CLI_OK;
}

static const char *mnemonic_at(unsigned i, const void *user)
{
    tv_insn_info info; /* its mnemonic is static */
    return tv_codec_insn_at(user, i, &info) ? info.mnemonic : NULL;
}

static int print_schema(cli *c, const tv_codec *codec)
{
    if (tv_codec_word_bits(codec))
        return cli_error(c, CLI_E_CONFLICT, "its programs are assembly source or ELF", "programs of %s are not JSON",
                         tv_codec_target(codec));
    tv_json_writer *writer = tv_json_writer_new(stdout, TV_JSON_INDENTED);
    if (!writer)
        return CLI_FAILED;
    c->raw_output = true;
    tv_codec_write_schema(codec, writer);
    if (!tv_json_writer_finish(writer) && !ferror(stdout)) /* main checks stdout for errors */
        cli_fail_memory(c);
    tv_json_writer_free(writer);
    putchar('\n');
    return CLI_OK;
}

/* True if `name` is the instruction's id, or its first `length` bytes are the mnemonic. */
static bool matches_name(const tv_insn_info *info, const char *name, size_t length)
{
    return strcmp(info->id, name) == 0 ||
           (strlen(info->mnemonic) == length && strncmp(info->mnemonic, name, length) == 0);
}

/* Length of the mnemonic in `name`, which may have suffixes: 4 for "vadd.sat". */
static size_t mnemonic_length(const tv_codec *codec, const char *name)
{
    tv_insn_info info;
    for (size_t n = strlen(name); n > 0; n--)
        for (unsigned i = 0; (name[n] == '.' || name[n] == '\0') && tv_codec_insn_at(codec, i, &info); i++)
            if (matches_name(&info, name, n))
                return n;
    return strlen(name);
}

/* The instructions to show: all, or those of one name. */
typedef struct insn_filter {
    const char *name; /* NULL: all */
    size_t length;    /* of the mnemonic in it */
} insn_filter;

static bool passes_filter(const insn_filter *f, const tv_insn_info *info)
{
    return !f->name || matches_name(info, f->name, f->length);
}

static int fail_mnemonic(cli *c, const tv_codec *codec, const char *name)
{
    char hint[96];
    const char *best = cli_nearest(name, mnemonic_at, codec);
    snprintf(hint, sizeof hint, best ? "did you mean '%s'?" : "`trivet isa %s` lists them", best ? best : c->files[0]);
    return cli_error(c, CLI_E_INSTRUCTION, hint, "%s has no instruction '%s'", c->files[0], name);
}

static void write_isa_json(cli *c, const tv_codec *codec, const insn_filter *filter)
{
    tv_insn_info info;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", tv_codec_target(codec));
    tv_json_unsigned_member(w, "word_bits", tv_codec_word_bits(codec));
    tv_json_key(w, "instructions");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++)
        if (passes_filter(filter, &info))
            write_insn_json(codec, i, &info, w);
    tv_json_end_array(w);
    if (!filter->name && tv_codec_word_bits(codec))
        write_keywords_json(c, tv_codec_target(codec), w);
    tv_json_end_object(w);
}

static void print_insn_line(const tv_insn_info *info)
{
    if (!info->format)
        printf("  %-22s %-4s %s  %s\n", info->id, info->unit, info->since, info->meaning);
    else
        printf("  %-16s %s%s\n%*s%s\n", info->mnemonic, info->meaning, info->proposed ? "; proposed" : "", 19, "",
               info->form);
}

static void print_list(const cli *c, const tv_codec *codec)
{
    unsigned bits = tv_codec_word_bits(codec);
    tv_insn_info info;
    if (bits)
        printf("%s: words of %u bits\n\n", tv_codec_target(codec), bits);
    else
        printf("%s: entries of named fields\n\n", tv_codec_target(codec));
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++)
        print_insn_line(&info);
    printf("\n`trivet isa %s %s` shows the %s of one.\n", c->files[0], bits ? "MNEMONIC" : "OPCODE",
           bits ? "bits" : "fields");
}

static int print_isa(cli *c, const tv_codec *codec)
{
    insn_filter filter = {.name = c->file_count > 1 ? c->files[1] : NULL};
    tv_insn_info info;
    bool found = false;
    if (cli_has(c, "json-schema"))
        return print_schema(c, codec);
    if (filter.name)
        filter.length = mnemonic_length(codec, filter.name);
    for (unsigned i = 0; !found && tv_codec_insn_at(codec, i, &info); i++)
        found = passes_filter(&filter, &info);
    if (!found)
        return fail_mnemonic(c, codec, filter.name);
    if (c->json)
        write_isa_json(c, codec, &filter);
    else if (!filter.name)
        print_list(c, codec);
    for (unsigned i = 0; !c->json && filter.name && tv_codec_insn_at(codec, i, &info); i++)
        if (passes_filter(&filter, &info))
            print_insn(codec, i, &info);
    return CLI_OK;
}

static int run_isa(cli *c)
{
    tv_codec *codec;
    if (c->file_count == 0)
        return list_targets(c);
    tv_status status = tv_codec_new(c->files[0], &c->sink, &codec);
    if (status != TV_OK)
        return cli_exit_status(status);
    int result = print_isa(c, codec);
    tv_codec_free(codec);
    return result;
}

const cli_command cli_isa = {
    .name = "isa",
    .usage = "isa [TARGET [MNEMONIC]] [--json] [--json-schema]",
    .summary = "show an instruction set",
    .example = "  trivet isa pccx\n  trivet isa pccx cvo.scale\n  trivet isa cmdq TE_GEMM_TILE",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "j",
    .files_max = 2,
    .values = "INSTRUCTION",
    .run = run_isa,
};
