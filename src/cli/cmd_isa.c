/* SPDX-License-Identifier: Apache-2.0 */
/* trivet isa: the instruction set, from the tables that everything else is made of. */
#include "cli/cli.h"

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
        printf("    %-8s %2u  %s%-*s  %s\n", bits, f.hi - f.lo + 1, f.name, (int)(22 - strlen(f.name)), value, f.ignored ? "not looked at" : f.doc);
    }
}

static void print_insn(const tv_codec *codec, unsigned i, const tv_insn_info *info)
{
    printf("%s\n  %s%s\n  unit %s, format %s; %s\n", info->form, info->meaning, info->proposed ? "; proposed" : "", info->unit, info->format, info->source);
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

static json_t *insn_json(const tv_codec *codec, unsigned i, const tv_insn_info *info)
{
    json_t *fields = json_array(), *uops = json_array();
    tv_field_info f;
    for (unsigned k = 0; tv_codec_field_at(codec, i, k, 0, &f); k++) {
        json_t *object = json_pack("{s:s, s:i, s:i, s:b, s:b, s:s}", "name", f.name, "hi", (int)f.hi, "lo", (int)f.lo, "reserved", f.reserved, "ignored",
                                   f.ignored, "doc", f.doc);
        if (f.fixed)
            json_object_set_new(object, "value", json_integer((json_int_t)f.fixed_value));
        json_array_append_new(fields, object);
    }
    tv_uop_info u;
    for (unsigned k = 0; tv_codec_uop_at(codec, i, k, 0, &u); k++)
        json_array_append_new(uops, json_pack("{s:s, s:i, s:o}", "type", u.type, "route", (int)u.route, "route_name", cli_string(u.route_name)));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "id", info->id, "mnemonic", info->mnemonic, "form", info->form, "format",
                     info->format, "unit", info->unit, "meaning", info->meaning, "source", info->source, "proposed", info->proposed, "fields",
                     fields, "uops", uops);
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

static bool names(const char *wanted, const tv_insn_info *info, size_t length)
{
    return strcmp(info->id, wanted) == 0 || (strlen(info->mnemonic) == length && strncmp(info->mnemonic, wanted, length) == 0);
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
    if (!c->json && !wanted)
        printf("%s: words of %u bits\n\n", tv_codec_target(codec), tv_codec_word_bits(codec));
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++) {
        if (wanted && !names(wanted, &info, cut))
            continue;
        shown++;
        if (c->json)
            json_array_append_new(list, insn_json(codec, i, &info));
        else if (wanted)
            print_insn(codec, i, &info);
        else
            printf("  %-16s %s%s\n%*s%s\n", info.mnemonic, info.meaning, info.proposed ? "; proposed" : "", 19, "", info.form);
    }
    int result = CLI_DONE;
    if (!shown) {
        char hint[96];
        const char *best = cli_nearest(wanted, mnemonic_at, codec);
        snprintf(hint, sizeof hint, best ? "did you mean '%s'?" : "`trivet isa %s` lists them", best ? best : c->files[0]);
        result = cli_wrong(c, hint, "%s has no instruction '%s'", c->files[0], wanted);
    } else if (c->json) {
        cli_print_json(c, json_pack("{s:s, s:i, s:O}", "target", tv_codec_target(codec), "word_bits", (int)tv_codec_word_bits(codec), "instructions", list));
    } else if (!wanted) {
        printf("\n`trivet isa %s MNEMONIC` shows the bits of one.\n", c->files[0]);
    }
    json_decref(list);
    tv_codec_free(codec);
    return result;
}

const cli_command cli_isa = {
    .name = "isa",
    .usage = "isa [TARGET [MNEMONIC]] [--json]",
    .summary = "show an instruction set",
    .example = "  trivet isa pccx\n  trivet isa pccx cvo.scale",
    .common = "j",
    .most = 2,
    .values = "TARGET",
    .run = run,
};
