/* SPDX-License-Identifier: Apache-2.0 */
/* trivet gen: random programs that are valid. */
#include <inttypes.h>

#include "cli/cli.h"
#include "trivet/gen.h"

static const cli_option options[] = {
    {"output", 'o', "OUT", "write the program here: .elf, .bin, .hex or .memh, otherwise assembly source (default: -)",
     "FILE"},
    {"seed", 0, "N", "seed of the random numbers (default: 1)", NULL},
    {"instructions", 'n', "N", "number of instructions (default: 1000)", NULL},
};

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

static int run_gen(cli *c)
{
    tv_generate_options generate = {.size = sizeof generate, .seed = 1, .instructions = 1000};
    tv_generated result = {0};
    tv_config *config = NULL;
    tv_status status = parse_number(c, "seed", &generate.seed);
    if (status == TV_OK)
        status = parse_number(c, "instructions", &generate.instructions);
    if (status == TV_OK)
        status = cli_make_config(c, c->files[0], false, &config);
    if (status == TV_OK)
        status = tv_program_generate(config, &generate, &c->sink, &result);
    if (status == TV_OK)
        status = write_program(c, result.source);
    if (status == TV_OK && !c->quiet)
        fprintf(stderr, "%" PRIu64 " instructions, %" PRIu64 " words rejected\n", result.instructions, result.rejected);
    free(result.source);
    tv_config_free(config);
    return status == TV_OK ? CLI_OK : cli_exit_status(status);
}

const cli_command cli_gen = {
    .name = "gen",
    .usage = "gen TARGET [-n N] [--seed N] [-o OUT]",
    .summary = "random program that is valid",
    .about = "Makes a program of random instructions with data and weight streams. The model executes each instruction "
             "while\n"
             "the program is made, so that it runs without a fault on the same configuration, from the reset state. A\n"
             "quarter of the values of fields are 0, 1, the largest two or a single bit, a quarter are near those of "
             "earlier\n"
             "instructions. The same seed gives the same program on every host.",
    .example = "  trivet gen pccx --seed 7 -o generated.s\n"
               "  trivet gen opennpu -c top -n 100000 -o generated.elf",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cD",
    .files_min = 1,
    .files_max = 1,
    .values = "TARGET",
    .run = run_gen,
};
