/* SPDX-License-Identifier: Apache-2.0 */
/* trivet asm: assemble a source file. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"output", 'o', "OUT", "write the program here (default: the name of the source with the extension of the format)",
     "FILE"},
    {"format", 0, "FORMAT",
     "elf, bin, hex or memh; json or jsonl for queues (default: the extension of OUT, otherwise elf)",
     "elf bin hex memh json jsonl"},
    {"data", 0, "FILE", "write the data segments here: words for $readmemh if the name ends in .memh, otherwise bytes",
     "FILE"},
    {"data-word", 0, "BYTES", "bytes of a word of --data, a power of two up to 64 (default: 1)", NULL},
    {"listing", 'l', "LISTING", "write a listing: address, bytes, source, symbols", "FILE"},
};

static const struct {
    const char *name;
    tv_program_format format;
} formats[] = {{"elf", TV_FORMAT_ELF},  {"bin", TV_FORMAT_BIN},   {"hex", TV_FORMAT_HEX},
               {"memh", TV_FORMAT_HEX}, {"json", TV_FORMAT_JSON}, {"jsonl", TV_FORMAT_JSON_LINES}};

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
    return name ? cli_error(c, CLI_E_VALUE, "use elf, bin, hex, memh, json or jsonl", "there is no format '%s'", name)
                : CLI_OK;
}

static void make_output_name(const char *source, const char *extension, char *out, size_t size)
{
    const char *slash = strrchr(source, '/');
    const char *dot = strrchr(slash ? slash : source, '.');
    size_t stem = dot ? (size_t)(dot - source) : strlen(source);
    if (strcmp(source, "-") == 0)
        snprintf(out, size, "a.%s", extension);
    else
        snprintf(out, size, "%.*s.%s", (int)stem, source, extension);
}

/* The extension of a format that the command line does not name. */
static const char *extension_of(tv_program_format format)
{
    for (size_t i = 0; i < CLI_COUNTOF(formats); i++)
        if (formats[i].format == format)
            return formats[i].name;
    return "";
}

/* The files to write; a path is NULL if there is none. */
typedef struct asm_job {
    cli *c;
    tv_program_format format;
    const char *output, *listing, *data;
    char chosen[4096]; /* `output` if the command line names none */
    unsigned data_word;
    tv_program *program;
} asm_job;

/* `names` is what both files are. */
static tv_status check_pair(cli *c, const char *names, const char *a, const char *b)
{
    if (!a || !b || (!cli_same_file(a, b) && (strcmp(a, "-") != 0 || strcmp(b, "-") != 0)))
        return TV_OK;
    cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them", "%s cannot both go to '%s'", names, a);
    return TV_ERR_INPUT;
}

/* Checks the files that are written against each other and against the inputs that are known. */
static tv_status check_files(const asm_job *j)
{
    cli *c = j->c;
    tv_status status = check_pair(c, "program and listing", j->output, j->listing);
    if (status == TV_OK)
        status = check_pair(c, "program and data", j->output, j->data);
    if (status == TV_OK)
        status = check_pair(c, "listing and data", j->listing, j->data);
    bool overwrites = status == TV_OK && (cli_overwrites_input(c, "program", j->output) ||
                                          (j->listing && cli_overwrites_input(c, "listing", j->listing)) ||
                                          (j->data && cli_overwrites_input(c, "data file", j->data)));
    return overwrites ? TV_ERR_INPUT : status;
}

/* The files that the source names are known when it is assembled. */
static tv_status check_program_inputs(asm_job *j)
{
    j->c->programs = &j->program;
    j->c->program_count = 1;
    tv_status status = check_files(j);
    j->c->program_count = 0;
    return status;
}

static int parse_data_word(asm_job *j)
{
    const char *text = cli_value(j->c, "data-word");
    uint64_t bytes = 1;
    if (text && !j->data)
        return cli_error(j->c, CLI_E_CONFLICT, "give --data FILE, too", "--data-word applies to --data");
    if (text && (!cli_parse_number(text, &bytes) || bytes < 1 || bytes > 64 || (bytes & (bytes - 1))))
        return cli_error(j->c, CLI_E_VALUE, "a power of two from 1 to 64", "--data-word cannot be '%s'", text);
    j->data_word = (unsigned)bytes;
    return CLI_OK;
}

static int parse_options(asm_job *j)
{
    cli *c = j->c;
    const char *format = cli_value(c, "format");
    j->output = cli_value(c, "output");
    j->listing = cli_value(c, "listing");
    j->data = cli_value(c, "data");
    int result = choose_format(c, j->output, &j->format);
    if (result == CLI_OK)
        result = parse_data_word(j);
    if (result != CLI_OK)
        return result;
    if (!j->output) {
        make_output_name(c->files[0], format ? format : extension_of(j->format), j->chosen, sizeof j->chosen);
        j->output = j->chosen;
    }
    bool to_stdout = strcmp(j->output, "-") == 0 || (j->listing && strcmp(j->listing, "-") == 0) ||
                     (j->data && strcmp(j->data, "-") == 0);
    if (check_files(j) != TV_OK)
        return CLI_INVALID;
    if (c->json && to_stdout)
        return cli_error(c, CLI_E_CONFLICT, "write the program and the listing to files",
                         "--json and a program or listing cannot both go to standard output");
    return CLI_OK;
}

/* Assembles the source and writes all files. */
static tv_status assemble(asm_job *j)
{
    const char *dirs[64], *defines[64];
    cli *c = j->c;
    tv_program_options how = cli_program_options(c, dirs, defines);
    tv_output *listing = NULL;
    tv_output_group *files = NULL;
    tv_status status = j->listing ? tv_output_open(j->listing, &c->sink, &listing) : TV_OK;
    if (status == TV_OK) {
        how.listing = listing ? tv_output_stream(listing) : NULL;
        status = tv_program_open(c->files[0], &how, &c->sink, &j->program);
    }
    if (status == TV_OK)
        status = check_program_inputs(j);
    if (status == TV_OK)
        status = cli_outputs(c, &files);
    if (status == TV_OK)
        status = tv_program_save_to(j->program, j->output, j->format, files, &c->sink);
    if (status == TV_OK && j->data)
        status = tv_program_save_data(j->program, j->data, j->data_word, files, &c->sink);
    if (status == TV_OK && listing)
        return tv_output_commit_to(listing, files, &c->sink);
    tv_output_abandon(listing);
    return status;
}

/* Data segments, their bytes, and the address of the first one. */
typedef struct data_size {
    uint64_t segments, bytes, addr;
} data_size;

static data_size measure_data(const tv_program *program)
{
    data_size d = {0};
    tv_segment s;
    for (; tv_program_segment_at(program, d.segments, &s); d.segments++) {
        d.addr = d.segments ? d.addr : s.addr;
        d.bytes += s.size;
    }
    return d;
}

static void write_result_json(const asm_job *j)
{
    tv_json_writer *w = cli_begin_result(j->c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", tv_program_target(j->program));
    tv_json_string_member(w, "output", j->output);
    tv_json_unsigned_member(w, "instructions", tv_program_instruction_count(j->program));
    if (j->data) {
        data_size d = measure_data(j->program);
        tv_json_key(w, "data");
        tv_json_begin_object(w);
        tv_json_string_member(w, "output", j->data);
        tv_json_unsigned_member(w, "addr", d.addr);
        tv_json_unsigned_member(w, "bytes", d.bytes);
        tv_json_unsigned_member(w, "segments", d.segments);
        tv_json_end_object(w);
    }
    tv_json_end_object(w);
}

static void print_result(const asm_job *j)
{
    FILE *out = strcmp(j->output, "-") == 0 || (j->data && strcmp(j->data, "-") == 0) ? stderr : stdout;
    fprintf(out, "%s: %llu instructions for %s\n", CLI_SAFE(j->output),
            (unsigned long long)tv_program_instruction_count(j->program), tv_program_target(j->program));
    if (j->data) {
        data_size d = measure_data(j->program);
        fprintf(out, "%s: %llu bytes of data from address 0x%llx\n", CLI_SAFE(j->data), (unsigned long long)d.bytes,
                (unsigned long long)d.addr);
    }
}

static int run_asm(cli *c)
{
    asm_job j = {.c = c};
    int result = parse_options(&j);
    if (result != CLI_OK)
        return result;
    tv_status status = assemble(&j);
    if (c->json && status == TV_OK)
        write_result_json(&j);
    else if (status == TV_OK && c->verbose)
        print_result(&j);
    else if (status == TV_ERR_INPUT && !c->quiet)
        fprintf(stderr, "trivet: %u error%s; nothing was written\n", c->errors, c->errors == 1 ? "" : "s");
    tv_program_free(j.program);
    return cli_exit_status(status);
}

const cli_command cli_asm = {
    .name = "asm",
    .usage = "asm FILE [-o OUT] [--format elf|bin|hex|memh|json|jsonl] [--data FILE] [-l LISTING]",
    .summary = "assemble a source file, or rewrite a queue",
    .about =
        "Reports all errors of the file, and writes nothing if there are any. Rewrites a command queue as JSON or JSON "
        "Lines,\n"
        "with the fields in the order of the specification.",
    .example = "  trivet asm softmax.s                    # writes softmax.elf\n"
               "  trivet asm softmax.s -o softmax.hex -l softmax.lst\n"
               "  trivet asm gemm.s -d M=64 -I common     # with a constant and an include directory\n"
               "  trivet asm softmax.s -o softmax.memh --data data.memh --data-word 16  # for a test bench\n"
               "  trivet asm ffn.json -o ffn.jsonl",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tIdj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_asm,
};
