/* SPDX-License-Identifier: Apache-2.0 */
/* trivet isa: the instruction set, from the tables that everything else is made of. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"json-schema", 0, NULL, "write the JSON Schema of the target's program files", NULL},
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
               f.ignored ? "not looked at" : f.doc);
    }
}

/* "0 to 16777216", "2, 4, 8, 16 or 32", "erf or tanh"; "" where the type says it all. */
static void print_values(const tv_parameter_info *p, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (uint64_t i = 0, left = p->allowed; left; i++, left >>= 1)
        if (left & 1)
            n += (size_t)snprintf(text + n, size - n, "%s%u", n == 0 ? "" : left == 1 ? " or " : ", ", (unsigned)i);
    for (unsigned i = 0; p->enum_names && p->enum_names[i]; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s",
                              i == 0                 ? ""
                              : p->enum_names[i + 1] ? ", "
                                                     : " or ",
                              p->enum_names[i]);
    if (n == 0 && strcmp(p->type, "integer") == 0)
        snprintf(text, size, p->max == INT64_MAX ? "%llu or more" : "%llu to %llu", (unsigned long long)p->min,
                 (unsigned long long)p->max);
}

static void print_parameters(const tv_codec *codec, unsigned insn)
{
    tv_parameter_info p;
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, &p); i++) {
        char values[96], presence[64];
        print_values(&p, values, sizeof values);
        snprintf(presence, sizeof presence,
                 p.required        ? "required"
                 : p.default_value ? "default %s"
                                   : "optional",
                 p.default_value);
        printf("    %s%-*s %-8s %-14s %s%s%s%s%s%s\n", p.member ? "  " : "", p.member ? 16 : 18, p.name, p.type,
               presence, p.doc, values[0] ? "; " : "", values, p.unit[0] ? " (" : "", p.unit, p.unit[0] ? ")" : "");
    }
}

static void print_insn(const tv_codec *codec, unsigned i, const tv_insn_info *info)
{
    if (!info->format) {
        printf("%s\n  %s\n  engine %s, since version %s%s%s; %s\n", info->id, info->meaning, info->unit, info->since,
               info->deprecated_since ? ", deprecated since " : "",
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

static json_t *parameters_json(const tv_codec *codec, unsigned insn)
{
    json_t *list = json_array();
    tv_parameter_info p;
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, &p); i++) {
        json_t *object = json_pack("{s:s, s:s, s:b, s:b, s:b, s:o, s:s, s:s}", "name", p.name, "type", p.type,
                                   "required", p.required, "common", p.common, "member", p.member, "default",
                                   cli_string(p.default_value), "unit", p.unit, "doc", p.doc);
        char values[96];
        print_values(&p, values, sizeof values);
        if (values[0])
            json_object_set_new(object, "values", json_string(values));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *insn_json(const tv_codec *codec, unsigned i, const tv_insn_info *info)
{
    if (!info->format)
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "id", info->id, "unit", info->unit, "meaning",
                         info->meaning, "source", info->source, "since", info->since, "deprecated_since",
                         cli_string(info->deprecated_since), "parameters", parameters_json(codec, i));
    json_t *fields = json_array(), *uops = json_array();
    tv_field_info f;
    for (unsigned k = 0; tv_codec_field_at(codec, i, k, 0, &f); k++) {
        json_t *object = json_pack("{s:s, s:i, s:i, s:b, s:b, s:s}", "name", f.name, "hi", (int)f.hi, "lo", (int)f.lo,
                                   "reserved", f.reserved, "ignored", f.ignored, "doc", f.doc);
        if (f.fixed)
            json_object_set_new(object, "value", json_integer((json_int_t)f.fixed_value));
        json_array_append_new(fields, object);
    }
    tv_uop_info u;
    for (unsigned k = 0; tv_codec_uop_at(codec, i, k, 0, &u); k++)
        json_array_append_new(uops, json_pack("{s:s, s:i, s:o}", "type", u.type, "route", (int)u.route, "route_name",
                                              cli_string(u.route_name)));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "id", info->id, "mnemonic", info->mnemonic,
                     "form", info->form, "format", info->format, "unit", info->unit, "meaning", info->meaning, "source",
                     info->source, "proposed", info->proposed, "fields", fields, "uops", uops);
}

/* The words of the assembly language, by kind; registers with how many there are. */
static void take_word(void *user, tv_keyword_kind kind, const char *word, unsigned count)
{
    static const char *const kinds[] = {
        [TV_KEYWORD_MNEMONIC] = "mnemonics", [TV_KEYWORD_SUFFIX] = "suffixes",  [TV_KEYWORD_REGISTER] = "registers",
        [TV_KEYWORD_BRACKET] = "brackets",   [TV_KEYWORD_OPERAND] = "operands", [TV_KEYWORD_OPERAND_KEY] = "keywords",
        [TV_KEYWORD_FLAG] = "flags",         [TV_KEYWORD_STREAM] = "streams",   [TV_KEYWORD_DIRECTIVE] = "directives",
        [TV_KEYWORD_FUNCTION] = "functions"};
    json_t *object = user, *list = json_object_get(object, kinds[kind]);
    if (!list) {
        list = kind == TV_KEYWORD_REGISTER ? json_object() : json_array();
        json_object_set_new(object, kinds[kind], list);
    }
    if (kind == TV_KEYWORD_REGISTER)
        json_object_set_new(list, word, json_integer((json_int_t)count));
    else
        json_array_append_new(list, json_string(word));
}

static json_t *words_json(const char *target)
{
    json_t *object = json_object();
    tv_assembly_keywords(target, &(tv_keyword_sink){take_word, object}, NULL);
    return object;
}

static int list_targets(cli *c)
{
    tv_target_info t;
    if (c->json) {
        json_t *list = json_array();
        for (unsigned i = 0; tv_target_at(i, &t); i++)
            json_array_append_new(list, json_pack("{s:s, s:s}", "target", t.name, "title", t.title));
        cli_print_json(c, list);
        return CLI_DONE;
    }
    for (unsigned i = 0; tv_target_at(i, &t); i++)
        printf("%-10s %s\n", t.name, t.title);
    printf("\n`trivet isa TARGET` shows the instructions of one.\n");
    return CLI_DONE;
}

static const char *mnemonic_at(unsigned i, const void *user)
{
    tv_insn_info info; /* its mnemonic is static */
    return tv_codec_insn_at(user, i, &info) ? info.mnemonic : NULL;
}

static int print_schema(cli *c, const tv_codec *codec)
{
    if (tv_codec_word_bits(codec))
        return cli_wrong(c, "a program of it is assembly source or ELF", "programs of %s are not JSON",
                         tv_codec_target(codec));
    tv_json_writer *writer = tv_json_writer_new(stdout, TV_JSON_INDENTED);
    if (!writer)
        return cli_exit_status(TV_ERR_MEMORY);
    tv_codec_write_schema(codec, writer);
    tv_json_writer_finish(writer);
    tv_json_writer_free(writer);
    putchar('\n');
    return CLI_DONE;
}

static bool names(const char *wanted, const tv_insn_info *info, size_t length)
{
    return strcmp(info->id, wanted) == 0 ||
           (strlen(info->mnemonic) == length && strncmp(info->mnemonic, wanted, length) == 0);
}

/* How much of "vadd.sat" is the mnemonic. */
static size_t without_suffixes(const tv_codec *codec, const char *wanted)
{
    tv_insn_info info;
    for (size_t n = strlen(wanted); n > 0; n--)
        for (unsigned i = 0; (wanted[n] == '.' || wanted[n] == '\0') && tv_codec_insn_at(codec, i, &info); i++)
            if (names(wanted, &info, n))
                return n;
    return strlen(wanted);
}

static int run(cli *c)
{
    if (c->file_count == 0)
        return list_targets(c);
    tv_codec *codec;
    tv_status status = tv_codec_new(c->files[0], &c->sink, &codec);
    if (status != TV_OK)
        return cli_exit_status(status);
    const char *wanted = c->file_count > 1 ? c->files[1] : NULL;
    json_t *list = json_array();
    tv_insn_info info;
    unsigned shown = 0;
    size_t cut = wanted ? without_suffixes(codec, wanted) : 0;
    if (cli_has(c, "json-schema")) {
        int made = print_schema(c, codec);
        json_decref(list);
        tv_codec_free(codec);
        return made;
    }
    if (!c->json && !wanted && tv_codec_word_bits(codec))
        printf("%s: words of %u bits\n\n", tv_codec_target(codec), tv_codec_word_bits(codec));
    else if (!c->json && !wanted)
        printf("%s: entries of named fields\n\n", tv_codec_target(codec));
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++) {
        if (wanted && !names(wanted, &info, cut))
            continue;
        shown++;
        if (c->json)
            json_array_append_new(list, insn_json(codec, i, &info));
        else if (wanted)
            print_insn(codec, i, &info);
        else if (!info.format)
            printf("  %-22s %-4s %s  %s\n", info.id, info.unit, info.since, info.meaning);
        else
            printf("  %-16s %s%s\n%*s%s\n", info.mnemonic, info.meaning, info.proposed ? "; proposed" : "", 19, "",
                   info.form);
    }
    int result = CLI_DONE;
    if (!shown) {
        char hint[96];
        const char *best = cli_nearest(wanted, mnemonic_at, codec);
        snprintf(hint, sizeof hint, best ? "did you mean '%s'?" : "`trivet isa %s` lists them",
                 best ? best : c->files[0]);
        result = cli_wrong(c, hint, "%s has no instruction '%s'", c->files[0], wanted);
    } else if (c->json) {
        json_t *object = json_pack("{s:s, s:i, s:O}", "target", tv_codec_target(codec), "word_bits",
                                   (int)tv_codec_word_bits(codec), "instructions", list);
        if (!wanted && tv_codec_word_bits(codec))
            json_object_set_new(object, "assembly", words_json(tv_codec_target(codec)));
        cli_print_json(c, object);
    } else if (!wanted) {
        printf("\n`trivet isa %s %s` shows the %s of one.\n", c->files[0],
               tv_codec_word_bits(codec) ? "MNEMONIC" : "OPCODE", tv_codec_word_bits(codec) ? "bits" : "fields");
    }
    json_decref(list);
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
    .most = 2,
    .values = "TARGET",
    .run = run,
};
