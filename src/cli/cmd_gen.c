/* SPDX-License-Identifier: Apache-2.0 */
/* trivet gen: random programs that are valid. */
#include <inttypes.h>

#include "cli/cli.h"
#include "trivet/gen.h"

static const cli_option options[] = {
    {"output", 'o', "OUT",
     "write the program here: .elf, .bin, .hex or .memh, otherwise assembly source, a queue as JSON (default: -)",
     "FILE"},
    {"seed", 0, "N", "seed of the random numbers (default: 1)", NULL},
    {"instructions", 'n', "N", "number of instructions (default: 1000)", NULL},
    {"weight", 'w', "INSN=N", "draw INSN, an id or mnemonic, N times as often as others; 0: never; repeatable", NULL},
    {"raw", 0, "N", "per mille of sources that are what an engine wrote last (default: 0)", NULL},
    {"war", 0, "N", "per mille of destinations that are what an engine read last (default: 0)", NULL},
    {"waw", 0, "N", "per mille of destinations that are what an engine wrote last (default: 0)", NULL},
    {"signature", 0, NULL, "end with stores of what the program has computed", NULL},
    {"illegal", 0, "N", "per mille of words that are illegal or fault (default: 0)", NULL},
};

enum { WEIGHTS_MAX = 256, NAME_SIZE = 64 };

static const struct {
    const char *extension;
    tv_program_format format;
} formats[] = {{".elf", TV_FORMAT_ELF}, {".bin", TV_FORMAT_BIN}, {".hex", TV_FORMAT_HEX}, {".memh", TV_FORMAT_HEX}};

static tv_status parse_number(cli *c, const char *option, uint64_t *value)
{
    const char *text = cli_value(c, option);
    if (!text || cli_parse_number(text, value))
        return TV_OK;
    cli_error(c, CLI_E_VALUE, "a number, for example 1000", "--%s cannot be '%s'", option, text);
    return TV_ERR_INPUT;
}

static tv_status parse_share(cli *c, const char *option, uint32_t *value)
{
    uint64_t number = *value;
    tv_status status = parse_number(c, option, &number);
    if (status == TV_OK && number > 1000) {
        cli_error(c, CLI_E_VALUE, "0 to 1000, per mille", "--%s cannot be '%s'", option, cli_value(c, option));
        return TV_ERR_INPUT;
    }
    *value = (uint32_t)number;
    return status;
}

/* ---- Weights ---- */

typedef struct weights {
    tv_generate_weight list[WEIGHTS_MAX];
    char names[WEIGHTS_MAX][NAME_SIZE];
    size_t count;
} weights;

static bool parse_weight(const char *text, char name[NAME_SIZE], tv_generate_weight *out)
{
    const char *equals = strchr(text, '=');
    uint64_t weight;
    if (!equals || equals == text || equals - text >= NAME_SIZE || !cli_parse_number(equals + 1, &weight) ||
        weight > TV_GENERATE_WEIGHT_MAX)
        return false;
    snprintf(name, NAME_SIZE, "%.*s", (int)(equals - text), text);
    *out = (tv_generate_weight){name, (uint32_t)weight};
    return true;
}

static tv_status parse_weights(cli *c, weights *w)
{
    const char *text;
    for (unsigned i = 0; (text = cli_value_at(c, "weight", i)); i++, w->count++)
        if (i >= WEIGHTS_MAX || !parse_weight(text, w->names[i], &w->list[i])) {
            cli_error(c, CLI_E_VALUE, "an instruction and 0 to 1000000, for example gemv=10", "--weight cannot be '%s'",
                      text);
            return TV_ERR_INPUT;
        }
    return TV_OK;
}

static tv_status parse_options(cli *c, weights *w, tv_generate_options *generate)
{
    tv_status status = parse_number(c, "seed", &generate->seed);
    if (status == TV_OK)
        status = parse_number(c, "instructions", &generate->instructions);
    if (status == TV_OK)
        status = parse_share(c, "raw", &generate->raw);
    if (status == TV_OK)
        status = parse_share(c, "war", &generate->war);
    if (status == TV_OK)
        status = parse_share(c, "waw", &generate->waw);
    if (status == TV_OK)
        status = parse_share(c, "illegal", &generate->illegal);
    if (status == TV_OK)
        status = parse_weights(c, w);
    generate->signature = cli_has(c, "signature");
    generate->weights = w->list;
    generate->weight_count = w->count;
    return status;
}

/* ---- Output ---- */

static tv_status write_text(cli *c, const char *path, const char *source, tv_output_group *group)
{
    tv_output *out;
    tv_status status = tv_output_open(path, &c->sink, &out);
    if (status != TV_OK)
        return status;
    fputs(source, tv_output_stream(out));
    return tv_output_commit_to(out, group, &c->sink);
}

static tv_status write_program(cli *c, const char *source)
{
    const char *path = cli_value(c, "output"), *dot = path ? strrchr(path, '.') : NULL;
    tv_output_group *group;
    tv_program *program;
    tv_status status = cli_outputs(c, &group);
    if (status != TV_OK)
        return status;
    if (dot && strchr(dot, '/'))
        dot = NULL;
    if (strcmp(c->files[0], "cmdq") == 0 && dot && strcmp(dot, ".json") != 0) {
        cli_error(c, CLI_E_VALUE, "a name that ends in .json", "a generated queue cannot be written as '%s'", path);
        return TV_ERR_INPUT;
    }
    for (size_t i = 0; dot && i < CLI_COUNTOF(formats); i++) {
        if (strcmp(dot, formats[i].extension) != 0)
            continue;
        status = tv_program_assemble("generated", source, strlen(source), NULL, &c->sink, &program);
        if (status != TV_OK)
            return status;
        status = tv_program_save_to(program, path, formats[i].format, group, &c->sink);
        tv_program_free(program);
        return status;
    }
    return write_text(c, path ? path : "-", source, group);
}

/* The range of a signature, or null. */
static void write_signature(tv_json_writer *w, const tv_generated *result)
{
    char text[96];
    snprintf(text, sizeof text, "%s:%" PRIu64 ":%" PRIu64 ":hex8",
             result->signature_space ? result->signature_space : "", result->signature_addr, result->signature_bytes);
    tv_json_string_member(w, "signature", result->signature_space ? text : NULL);
}

static void write_result(cli *c, const tv_generated *result)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "instructions", result->instructions);
    tv_json_unsigned_member(w, "illegal", result->illegal);
    write_signature(w, result);
    tv_json_unsigned_member(w, "rejected", result->rejected);
    tv_json_key(w, "counts");
    tv_json_begin_object(w);
    for (size_t i = 0; i < result->count_count; i++)
        tv_json_unsigned_member(w, result->counts[i].insn, result->counts[i].count);
    tv_json_end_object(w);
    if (!cli_value(c, "output"))
        tv_json_string_member(w, "source", result->source);
    tv_json_end_object(w);
}

static tv_status write_generated(cli *c, const tv_generated *result)
{
    tv_status status = c->json && !cli_value(c, "output") ? TV_OK : write_program(c, result->source);
    if (status != TV_OK)
        return status;
    if (c->json)
        write_result(c, result);
    if (!c->quiet)
        fprintf(stderr, "%" PRIu64 " instructions, %" PRIu64 " words rejected\n", result->instructions,
                result->rejected);
    if (!c->quiet && result->signature_space)
        fprintf(stderr, "signature: %s:0x%" PRIx64 ":%" PRIu64 ":hex8\n", result->signature_space,
                result->signature_addr, result->signature_bytes);
    return TV_OK;
}

static int run_gen(cli *c)
{
    tv_generate_options generate = {.size = sizeof generate, .seed = 1, .instructions = 1000};
    tv_generated result = {0};
    weights chosen = {.count = 0};
    tv_config *config = NULL;
    tv_status status = parse_options(c, &chosen, &generate);
    if (status == TV_OK)
        status = cli_make_config(c, c->files[0], false, &config);
    if (status == TV_OK)
        status = tv_program_generate(config, &generate, &c->sink, &result);
    if (status == TV_OK)
        status = write_generated(c, &result);
    free(result.source);
    free(result.counts);
    tv_config_free(config);
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

const cli_command cli_gen = {
    .name = "gen",
    .usage = "gen TARGET [-n N] [--seed N] [-w INSN=N] [-o OUT]",
    .summary = "random program that is valid",
    .about = "Makes a program of random instructions with data and weight streams. The model executes each instruction "
             "while\n"
             "the program is made, so that it runs without a fault on the same configuration, from the reset state. A\n"
             "quarter of the values of fields are 0, 1, the largest two or a single bit, a quarter are near those of "
             "earlier\n"
             "instructions. With --illegal the program is a list of words whose faults are results, for designs in "
             "lockstep;\n"
             "`trivet run` ends at the first fault. The same seed gives the same program on every host.",
    .example = "  trivet gen pccx --seed 7 -o generated.s\n"
               "  trivet gen opennpu -c top -n 100000 -o generated.elf\n"
               "  trivet gen cmdq -n 200 -o queue.json",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cDj",
    .files_min = 1,
    .files_max = 1,
    .values = "TARGET",
    .run = run_gen,
};
