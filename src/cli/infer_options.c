/* SPDX-License-Identifier: Apache-2.0 */
/* The options of networks, and the files that they name. */
#include <limits.h>
#include <unistd.h>

#include "cli/infer_job.h"

enum { DIMS_MAX = 64, NAME_LENGTH = 256 };

static int fail_value(infer_job *j, const char *option, const char *value, const char *hint)
{
    return cli_error(j->c, CLI_E_VALUE, hint, "--%s cannot be '%s'", option, value);
}

static bool parse_integer(const infer_job *j, const char *name, uint64_t default_value, uint64_t max, uint64_t *out)
{
    const char *text = cli_value(j->c, name);
    *out = default_value;
    return !text || (cli_parse_number(text, out) && *out >= 1 && *out <= max);
}

static int parse_ranges(infer_job *j)
{
    static const char *const names[] = {"max", "percentile", "mse"};
    const char *text = cli_value(j->c, "ranges");
    for (unsigned i = 0; text && i < CLI_COUNTOF(names); i++)
        if (strcmp(text, names[i]) == 0) {
            j->options.ranges = (tv_network_ranges)i;
            return CLI_OK;
        }
    return text ? fail_value(j, "ranges", text, "max, percentile or mse") : CLI_OK;
}

static int check_options(infer_job *j)
{
    static const char *const of_data[] = {"verify", "output", "calibrate", "correct-bias", "input", "binary16"};
    for (size_t i = 0; i < CLI_COUNTOF(of_data); i++)
        if (cli_has(j->c, "timing-only") && cli_has(j->c, of_data[i]))
            return cli_error(j->c, CLI_E_CONFLICT, "omit one of them", "--timing-only and --%s are mutually exclusive",
                             of_data[i]);
    return CLI_OK;
}

int infer_parse_options(infer_job *j)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads, bits, wide;
    j->options.size = sizeof j->options;
    if (!parse_integer(j, "threads", cores > 0 ? (uint64_t)cores : 1, 256, &threads))
        return fail_value(j, "threads", cli_value(j->c, "threads"), "1 to 256");
    if (!parse_integer(j, "weight-bits", 0, 8, &bits) || (bits != 0 && bits != 4 && bits != 8))
        return fail_value(j, "weight-bits", cli_value(j->c, "weight-bits"), "4 or 8");
    if (!parse_integer(j, "binary16", 0, 100, &wide))
        return fail_value(j, "binary16", cli_value(j->c, "binary16"), "1 to 100 percent");
    j->options.binary16 = (unsigned)wide;
    j->options.threads = (unsigned)threads;
    j->options.weight_bits = (unsigned)bits;
    j->options.timing_only = cli_has(j->c, "timing-only");
    j->options.verify = cli_has(j->c, "verify");
    j->options.allow_host_ops = cli_has(j->c, "allow-host-ops");
    j->options.explain_plan = cli_has(j->c, "explain-plan");
    j->options.correct_bias = cli_has(j->c, "correct-bias");
    j->options.calibrate = cli_value(j->c, "calibrate");
    int result = parse_ranges(j);
    return result == CLI_OK ? check_options(j) : result;
}

/* ---- NAME=FILE and NAME=FILE:TYPE ---- */

typedef struct binding {
    char name[NAME_LENGTH], path[PATH_MAX];
    const char *type; /* NULL: a .npy file */
} binding;

static int parse_binding(infer_job *j, const char *option, const char *text, binding *out)
{
    const char *equals = strchr(text, '='), *file = equals ? equals + 1 : "", *colon = strrchr(file, ':');
    bool npy = cli_ends_with(file, ".npy");
    if (!equals || equals == text || !*file || equals - text >= NAME_LENGTH || strlen(file) >= PATH_MAX)
        return fail_value(j, option, text, "NAME=FILE.npy, or NAME=FILE:TYPE");
    if (!npy && !colon)
        return fail_value(j, option, text, "a name that ends in .npy, or the type of raw elements as in FILE:float32");
    snprintf(out->name, sizeof out->name, "%.*s", (int)(equals - text), text);
    snprintf(out->path, sizeof out->path, "%.*s", npy ? (int)strlen(file) : (int)(colon - file), file);
    out->type = npy ? NULL : colon + 1;
    return CLI_OK;
}

static tv_status load_inputs(infer_job *j)
{
    const char *text;
    binding b;
    tv_status status = TV_OK;
    for (unsigned i = 0; status == TV_OK && (text = cli_value_at(j->c, "input", i)); i++)
        status = parse_binding(j, "input", text, &b) == CLI_OK
                     ? tv_network_load_input(j->network, b.name, b.path, b.type, &j->c->sink)
                     : TV_ERR_INPUT;
    return status;
}

/* Rejects names of outputs before the network runs, so that a typing error does not cost its result. The --output of
 * `compile` is a folder. */
static tv_status check_outputs(infer_job *j)
{
    const char *text;
    binding b;
    for (unsigned i = 0; !j->options.emit && (text = cli_value_at(j->c, "output", i)); i++) {
        tv_network_tensor t;
        bool found = false;
        if (parse_binding(j, "output", text, &b) != CLI_OK || cli_overwrites_input(j->c, "output", b.path))
            return TV_ERR_INPUT;
        for (unsigned k = 0; tv_network_output_at(j->network, k, &t); k++)
            found = found || strcmp(t.name, b.name) == 0;
        if (!found) {
            tv_network_output_at(j->network, 0, &t);
            char hint[NAME_LENGTH];
            snprintf(hint, sizeof hint, "the first output is '%.200s'", t.name);
            cli_error(j->c, CLI_E_VALUE, hint, "--output: the network has no output '%s'", b.name);
            return TV_ERR_INPUT;
        }
    }
    return TV_OK;
}

tv_status infer_open_network(infer_job *j)
{
    tv_network_dim dims[DIMS_MAX];
    char names[DIMS_MAX][NAME_LENGTH];
    const char *text;
    tv_network_open_options options = {.size = sizeof options,
                                       .dims = dims,
                                       .timing_only = cli_has(j->c, "timing-only"),
                                       .equalize = cli_has(j->c, "equalize")};
    for (; (text = cli_value_at(j->c, "dim", options.dim_count)); options.dim_count++) {
        uint64_t extent;
        const char *equals = strrchr(text, '=');
        bool fits = equals && equals - text < NAME_LENGTH && options.dim_count < DIMS_MAX &&
                    cli_parse_number(equals + 1, &extent) && extent <= INT32_MAX;
        if (!fits) {
            fail_value(j, "dim", text, "NAME=N, for example --dim batch=1");
            return TV_ERR_INPUT;
        }
        snprintf(names[options.dim_count], NAME_LENGTH, "%.*s", (int)(equals - text), text);
        dims[options.dim_count] = (tv_network_dim){names[options.dim_count], (int64_t)extent};
    }
    tv_status status = tv_network_open(j->c->files[0], &options, &j->c->sink, &j->network);
    if (status == TV_OK)
        status = load_inputs(j);
    return status == TV_OK ? check_outputs(j) : status;
}

/* Inserts `target` before the extension of a path. */
static bool insert_target(char path[PATH_MAX], const char *target)
{
    char copy[PATH_MAX];
    const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
    snprintf(copy, sizeof copy, "%s", path);
    size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    if (strlen(path) + strlen(target) + 2 > PATH_MAX)
        return false;
    snprintf(path + stem, PATH_MAX - stem, ".%s%s", target, copy + stem);
    return true;
}

tv_status infer_save_outputs(infer_job *j, const infer_outcome *outcome, bool several)
{
    const char *text;
    binding b;
    tv_output_group *group;
    tv_status status = cli_value(j->c, "output") ? cli_outputs(j->c, &group) : TV_OK;
    for (unsigned i = 0; status == TV_OK && (text = cli_value_at(j->c, "output", i)); i++) {
        if (parse_binding(j, "output", text, &b) != CLI_OK || (several && !insert_target(b.path, outcome->target)))
            return TV_ERR_INPUT;
        status = tv_network_session_save_output(outcome->session, b.name, b.path, b.type, group, &j->c->sink);
    }
    return status;
}
