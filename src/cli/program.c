/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and configurations from the common options. */
#include <inttypes.h>

#include "cli/cli.h"

enum { LIST_MAX = 64 };

tv_program_options cli_program_options(const cli *c, const char **dirs, const char **defines)
{
    tv_program_options options = {.size = sizeof options,
                                  .target = cli_value(c, "target"),
                                  .include_dirs = dirs,
                                  .defines = defines,
                                  .line_limit = c->line_limit,
                                  .allow_paths = cli_has(c, "allow-paths")};
    const char *value;
    while (options.include_count < LIST_MAX && (value = cli_value_at(c, "include", options.include_count)))
        dirs[options.include_count++] = value;
    while (options.define_count < LIST_MAX && (value = cli_value_at(c, "define", options.define_count)))
        defines[options.define_count++] = value;
    return options;
}

tv_status cli_open_program(cli *c, const char *path, tv_program **out)
{
    const char *dirs[LIST_MAX], *defines[LIST_MAX];
    tv_program_options options = cli_program_options(c, dirs, defines);
    return tv_program_open(path, &options, &c->sink, out);
}

static bool has_key(const tv_config *config, const char *key)
{
    tv_config_entry entry;
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        if (strcmp(entry.key, key) == 0)
            return true;
    return false;
}

bool cli_select_kernels(cli *c)
{
    const char *option = cli_value(c, "kernels"), *variable = getenv("TRIVET_KERNELS"),
               *requested = option ? option : variable, *name;
    char hint[80] = "this host has";
    if (!requested || !*requested)
        return true;
    for (unsigned i = 0; (name = tv_kernels_at(i)); i++) {
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, " %s", name);
        if (strcmp(name, requested) == 0) {
            setenv("TRIVET_KERNELS", name, 1);
            return true;
        }
    }
    cli_error(c, CLI_E_VALUE, hint, "%s cannot be '%s'", option ? "--kernels" : "TRIVET_KERNELS", requested);
    return false;
}

/* True if any target has this parameter. */
static bool any_target_has_key(const char *key)
{
    tv_target_info info;
    bool found = false;
    for (unsigned i = 0; tv_target_at(i, &info) && !found; i++) {
        tv_config *config;
        if (tv_config_new(info.name, NULL, &config) != TV_OK)
            continue;
        found = has_key(config, key);
        tv_config_free(config);
    }
    return found;
}

/* A configuration from a profile, which may be NULL, then from -c and -D. */
static tv_status make_config(cli *c, const char *target, const char *profile, bool skip_other_targets, tv_config **out)
{
    tv_config *config;
    const char *value;
    tv_status status = tv_config_new(target, &c->sink, &config);
    if (status != TV_OK)
        return status;
    if (profile)
        status = tv_config_load(config, profile, &c->sink);
    for (unsigned i = 0; status == TV_OK && (value = cli_value_at(c, "config", i)); i++)
        status = tv_config_load(config, value, &c->sink);
    for (unsigned i = 0; status == TV_OK && (value = cli_value_at(c, "set", i)); i++) {
        const char *equals = strchr(value, '=');
        char key[128];
        if (!equals || (size_t)(equals - value) >= sizeof key) {
            cli_error(c, CLI_E_VALUE, "write it like -D l2.words=114688", "-D takes KEY=VALUE, not '%s'", value);
            status = TV_ERR_INPUT;
            break;
        }
        snprintf(key, sizeof key, "%.*s", (int)(equals - value), value);
        if (skip_other_targets && !has_key(config, key) && any_target_has_key(key))
            continue;
        status = tv_config_set(config, key, equals + 1, &c->sink);
    }
    if (status != TV_OK) {
        tv_config_free(config);
        return status;
    }
    *out = config;
    return TV_OK;
}

tv_status cli_make_config(cli *c, const char *target, bool skip_other_targets, tv_config **out)
{
    return make_config(c, target, NULL, skip_other_targets, out);
}

tv_status cli_make_program_config(cli *c, const tv_program *program, tv_config **out)
{
    const char *profile = cli_has(c, "config") ? NULL : tv_program_profile(program);
    return make_config(c, tv_program_target(program), profile, false, out);
}

void cli_check_validation(cli *c, const tv_config *config, uint64_t cycles)
{
    static const char hint[] = "`trivet config` with the same -c and -D prints what the profile was validated against";
    tv_config_validation v;
    char message[256];
    if (cycles == 0 || !tv_config_validation_of(config, &v))
        return;
    if (v.changed)
        snprintf(message, sizeof message, "the profile was validated with another value of %s", v.changed);
    else if (cycles < v.min_cycles || cycles > v.max_cycles)
        snprintf(message, sizeof message,
                 "the run takes %" PRIu64 " cycles; the profile was validated for %" PRIu64 " to %" PRIu64, cycles,
                 v.min_cycles, v.max_cycles);
    else
        return;
    cli_warn(c, CLI_E_VALIDATION, hint, message);
}
