/* SPDX-License-Identifier: Apache-2.0 */
/* trivet asm: assemble a source file. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"output", 'o', "OUT", "write the program here (default: the name of the source with the extension of the format)",
     "FILE"},
    {"format", 0, "FORMAT", "elf, bin or hex; json or jsonl for queues (default: the extension of OUT, otherwise elf)",
     "elf bin hex json jsonl"},
    {"listing", 'l', "LISTING", "write a listing: address, bytes, source, symbols", "FILE"},
};

static const struct {
    const char *name;
    tv_program_format format;
} formats[] = {{"elf", TV_FORMAT_ELF},
               {"bin", TV_FORMAT_BIN},
               {"hex", TV_FORMAT_HEX},
               {"json", TV_FORMAT_JSON},
               {"jsonl", TV_FORMAT_JSON_LINES}};

static int choose_format(cli *c, const char *output, tv_program_format *format)
{
    const char *name = cli_value(c, "format"), *dot = output ? strrchr(output, '.') : NULL;
    *format = TV_FORMAT_ELF;
    for (size_t i = 0; i < CLI_COUNTOF(formats); i++)
        if (strcmp(name ? name : dot ? dot + 1 : "", formats[i].name) == 0) {
            *format = formats[i].format;
            return CLI_OK;
        }
    const char *source = strrchr(c->files[0], '.'); /* JSON is rewritten as JSON Lines, and the reverse */
    if (!name && !output && source && (strcmp(source, ".json") == 0 || strcmp(source, ".jsonl") == 0))
        *format = strcmp(source, ".json") == 0 ? TV_FORMAT_JSON_LINES : TV_FORMAT_JSON;
    return name ? cli_error(c, CLI_E_VALUE, "use elf, bin, hex, json or jsonl", "there is no format '%s'", name)
                : CLI_OK;
}

static void make_output_name(const char *source, tv_program_format format, char *out, size_t size)
{
    static const char *const extensions[] = {[TV_FORMAT_ELF] = ".elf",
                                             [TV_FORMAT_BIN] = ".bin",
                                             [TV_FORMAT_HEX] = ".hex",
                                             [TV_FORMAT_JSON] = ".json",
                                             [TV_FORMAT_JSON_LINES] = ".jsonl"};
    const char *slash = strrchr(source, '/');
    const char *dot = strrchr(slash ? slash : source, '.');
    size_t stem = dot ? (size_t)(dot - source) : strlen(source);
    if (strcmp(source, "-") == 0)
        snprintf(out, size, "a%s", extensions[format]);
    else
        snprintf(out, size, "%.*s%s", (int)stem, source, extensions[format]);
}

static void write_result_json(cli *c, const char *output, const tv_program *program)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", tv_program_target(program));
    tv_json_string_member(w, "output", output);
    tv_json_unsigned_member(w, "instructions", tv_program_instruction_count(program));
    tv_json_end_object(w);
}

/* The files that the source names are known when it is assembled. */
static tv_status check_program_inputs(cli *c, tv_program **program, const char *output, const char *listing)
{
    c->programs = program;
    c->program_count = 1;
    bool overwrites =
        cli_overwrites_input(c, "program", output) || (listing && cli_overwrites_input(c, "listing", listing));
    c->program_count = 0;
    return overwrites ? TV_ERR_INPUT : TV_OK;
}

static int run_asm(cli *c)
{
    const char *dirs[64], *defines[64];
    tv_program_options program_options = cli_program_options(c, dirs, defines);
    const char *output = cli_value(c, "output"), *listing_path = cli_value(c, "listing");
    char chosen[4096];
    tv_program_format format = TV_FORMAT_ELF;
    tv_program *program = NULL;
    tv_output *listing = NULL;
    tv_output_group *files = NULL;
    int result = choose_format(c, output, &format);
    if (result != CLI_OK)
        return result;
    if (!output) {
        make_output_name(c->files[0], format, chosen, sizeof chosen);
        output = chosen;
    }
    if (listing_path &&
        (cli_same_file(listing_path, output) || (strcmp(listing_path, "-") == 0 && strcmp(output, "-") == 0)))
        return cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them",
                         "program and listing cannot both go to '%s'", output);
    if ((listing_path && cli_overwrites_input(c, "listing", listing_path)) ||
        cli_overwrites_input(c, "program", output))
        return CLI_INVALID;
    if (c->json && (strcmp(output, "-") == 0 || (listing_path && strcmp(listing_path, "-") == 0)))
        return cli_error(c, CLI_E_CONFLICT, "write the program and the listing to files",
                         "--json and a program or listing cannot both go to standard output");
    tv_status status = TV_OK;
    if (listing_path)
        status = tv_output_open(listing_path, &c->sink, &listing);
    if (status == TV_OK) {
        program_options.listing = listing ? tv_output_stream(listing) : NULL;
        status = tv_program_open(c->files[0], &program_options, &c->sink, &program);
    }
    if (status == TV_OK)
        status = check_program_inputs(c, &program, output, listing_path);
    if (status == TV_OK)
        status = cli_outputs(c, &files);
    if (status == TV_OK)
        status = tv_program_save_to(program, output, format, files, &c->sink);
    if (status == TV_OK && listing)
        status = tv_output_commit_to(listing, files, &c->sink);
    else
        tv_output_abandon(listing);
    bool to_stdout = strcmp(output, "-") == 0;
    if (c->json && status == TV_OK)
        write_result_json(c, output, program);
    else if (status == TV_OK && c->verbose)
        fprintf(to_stdout ? stderr : stdout, "%s: %llu instructions for %s\n", CLI_SAFE(output),
                (unsigned long long)tv_program_instruction_count(program), tv_program_target(program));
    else if (status == TV_ERR_INPUT && !c->quiet)
        fprintf(stderr, "trivet: %u error%s; nothing was written\n", c->errors, c->errors == 1 ? "" : "s");
    tv_program_free(program);
    return cli_exit_status(status);
}

const cli_command cli_asm = {
    .name = "asm",
    .usage = "asm FILE [-o OUT] [--format elf|bin|hex|json|jsonl] [-l LISTING]",
    .summary = "assemble a source file, or rewrite a queue",
    .about =
        "Reports all errors of the file, and writes nothing if there are any. Rewrites a command queue as JSON or JSON "
        "Lines,\n"
        "with the fields in the order of the specification.",
    .example = "  trivet asm softmax.s                    # writes softmax.elf\n"
               "  trivet asm softmax.s -o softmax.hex -l softmax.lst\n"
               "  trivet asm gemm.s -d M=64 -I common     # with a constant and an include directory\n"
               "  trivet asm ffn.json -o ffn.jsonl",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tIdj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_asm,
};
