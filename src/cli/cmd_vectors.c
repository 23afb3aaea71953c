/* SPDX-License-Identifier: Apache-2.0 */
/* trivet vectors: golden vectors of units as files. */
#include <inttypes.h>

#include "cli/vectors.h"

static const cli_option options[] = {
    {"output", 'o', "DIR", "write the fixtures to folders of DIR, one a family; required but with --list", "FILE"},
    {"list", 0, NULL, "print the families", NULL},
};

const vectors_family vectors_families[] = {
    {"bf16-decode", "sign, exponent and mantissa of BF16 numbers, at their edges", vectors_bf16_decode, NULL},
    {"emax-align", "mantissas aligned to the largest exponent of a row", vectors_emax_align, NULL},
    {"bf16-to-int8", "activations quantized to INT8: clamp, rounding, saturation, sign", vectors_bf16_to_int8, NULL},
    {"int4-packing", "two INT4 weights in a byte, and in a factor of the dual multiplier", vectors_int4_packing, NULL},
    {"dual-mac", "two dot products in one word of 48 bits, 1 to 4096 long, all signs", vectors_dual_mac, NULL},
    {"drain", "sums of windows of up to 1024 products", vectors_drain, NULL},
    {"normalize", "sums to BF16 results: scales, and the old destination", vectors_normalize, NULL},
    {"sfu-exp", "the exponential function of the SFU, of all 65,536 numbers", vectors_sfu, "exp"},
    {"sfu-sqrt", "its square root", vectors_sfu, "sqrt"},
    {"sfu-gelu", "its GELU", vectors_sfu, "gelu"},
    {"sfu-sin", "its sine", vectors_sfu, "sin"},
    {"sfu-cos", "its cosine", vectors_sfu, "cos"},
    {"sfu-recip", "its reciprocal", vectors_sfu, "recip"},
    {"opennpu", "each operation of OpenNPU on lanes, corners by corners", vectors_opennpu, NULL},
    {"cmdq-timing", "the cycles of command queues: products, functions, transfers, waits", vectors_cmdq_timing, NULL},
};

const unsigned vectors_family_count = CLI_COUNTOF(vectors_families);

static int list_families(void)
{
    for (unsigned i = 0; i < vectors_family_count; i++)
        printf("%-13s %s\n", vectors_families[i].name, vectors_families[i].meaning);
    return CLI_OK;
}

static bool is_selected(const cli *c, const vectors_family *family)
{
    bool selected = c->file_count == 0;
    for (unsigned i = 0; i < c->file_count; i++)
        selected = selected || strcmp(c->files[i], family->name) == 0;
    return selected;
}

static tv_status check_names(cli *c)
{
    for (unsigned i = 0; i < c->file_count; i++) {
        bool known = false;
        for (unsigned k = 0; k < vectors_family_count; k++)
            known = known || strcmp(c->files[i], vectors_families[k].name) == 0;
        if (!known) {
            cli_error(c, CLI_E_VALUE, "`trivet vectors --list` lists them", "there is no family '%s'", c->files[i]);
            return TV_ERR_INPUT;
        }
    }
    return TV_OK;
}

static tv_status make_folder(vectors_writer *w)
{
    size_t length = strlen(w->folder) + strlen(w->family) + 2;
    char *path = malloc(length);
    if (!path) {
        cli_fail_memory(w->c);
        return TV_ERR_MEMORY;
    }
    snprintf(path, length, "%s/%s", w->folder, w->family);
    tv_status status = tv_output_group_folder(w->group, path, &w->c->sink);
    free(path);
    return status;
}

static int run_vectors(cli *c)
{
    vectors_writer w = {.c = c, .folder = cli_value(c, "output")};
    uint64_t fixtures = 0;
    if (cli_has(c, "list"))
        return list_families();
    w.status = check_names(c);
    if (w.status == TV_OK && !w.folder) {
        cli_error(c, CLI_E_VALUE, "for example -o vectors", "the fixtures need a folder");
        w.status = TV_ERR_INPUT;
    }
    if (w.status == TV_OK)
        w.status = cli_outputs(c, &w.group);
    if (w.status == TV_OK)
        w.status = tv_output_group_folder(w.group, w.folder, &c->sink);
    for (unsigned i = 0; i < vectors_family_count && w.status == TV_OK; i++) {
        const vectors_family *family = &vectors_families[i];
        if (!is_selected(c, family))
            continue;
        w.family = family->name;
        w.status = make_folder(&w);
        if (w.status == TV_OK)
            family->write(&w, family->argument);
        fixtures = w.fixtures;
    }
    if (w.status == TV_OK && !c->quiet)
        fprintf(stderr, "%" PRIu64 " fixtures\n", fixtures);
    return w.status == TV_OK ? CLI_OK : cli_exit_status(w.status);
}

const cli_command cli_vectors = {
    .name = "vectors",
    .usage = "vectors [FAMILY...] -o DIR",
    .summary = "golden vectors of units, as files",
    .about =
        "Writes fixtures for benches of units: inputs, the values inside the unit and the results. Each array is a "
        "file\n"
        "of hexadecimal words that $readmemh reads; a JSON file has the shapes, the packed bytes and the SHA-256 of "
        "each.\n"
        "Without a family it writes all. The bytes are the same on every host.",
    .example = "  trivet vectors --list\n"
               "  trivet vectors dual-mac normalize -o vectors",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "",
    .files_min = 0,
    .files_max = 64,
    .values = "FAMILY",
    .run = run_vectors,
};
