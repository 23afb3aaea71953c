/* SPDX-License-Identifier: Apache-2.0 */
/* trivet config, targets, version. */
#include <inttypes.h>

#include "cli/cli.h"

static const cli_option options[] = {
    {"list", 0, NULL, "list only the names of the profiles", NULL},
    {"energy", 0, NULL, "print the table of energies with its sources, instead of the parameters", NULL},
    {"accelergy-ert", 0, "FILE", "write the energies as an energy reference table of Accelergy", "FILE"},
    {"accelergy-art", 0, "FILE", "write an area reference table of Accelergy, which has no areas", "FILE"},
};

static void write_profiles_json(cli *c)
{
    const char *name, *description;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_config_profile_at(cli_value(c, "target"), i, &name, &description); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", name);
        tv_json_string_member(w, "description", description);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static int list_profiles(cli *c)
{
    const char *name, *description;
    if (c->json) {
        write_profiles_json(c);
        return CLI_OK;
    }
    for (unsigned i = 0; tv_config_profile_at(cli_value(c, "target"), i, &name, &description); i++)
        if (cli_has(c, "list"))
            printf("%s\n", name);
        else
            printf("%-16s %s\n", name, description);
    if (!cli_has(c, "list"))
        printf("\n`trivet config PROFILE` prints one with every parameter.\n");
    return CLI_OK;
}

/* The target of -t; otherwise that of the profile, of -c or of a -c FILE; otherwise the only target; "": none. */
static tv_status choose_target(cli *c, const char *profile, char target[TV_CONFIG_TARGET])
{
    tv_target_info t; /* its strings are static */
    const char *name = cli_value(c, "target");
    tv_status status = TV_OK;
    target[0] = '\0';
    if (name && strlen(name) < TV_CONFIG_TARGET)
        memcpy(target, name, strlen(name) + 1);
    if (!target[0] && profile)
        status = tv_config_profile_target(profile, &c->sink, target);
    for (unsigned i = 0; status == TV_OK && !target[0] && (name = cli_value_at(c, "config", i)); i++)
        status = tv_config_profile_target(name, &c->sink, target);
    if (!target[0] && !tv_target_at(1, &t) && tv_target_at(0, &t))
        snprintf(target, TV_CONFIG_TARGET, "%s", t.name);
    return status;
}

/* The profile (may be NULL), then -c and -D over it. */
static tv_status make_config(cli *c, const char *target, const char *profile, tv_config **out)
{
    if (!profile)
        return cli_make_config(c, target, false, out);
    static const cli_option config_option = {"config", 'c', "PROFILE", NULL, NULL};
    cli with_profile = *c;
    with_profile.arguments = calloc(c->argument_count + 1, sizeof *with_profile.arguments);
    if (!with_profile.arguments)
        return TV_ERR_MEMORY;
    with_profile.arguments[0] = (cli_argument){&config_option, profile};
    memcpy(with_profile.arguments + 1, c->arguments, c->argument_count * sizeof *c->arguments);
    with_profile.argument_count++;
    tv_status status = cli_make_config(&with_profile, target, false, out);
    free(with_profile.arguments);
    return status;
}

static void write_entry_json(const tv_config_entry *e, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "key", e->key);
    tv_json_string_member(w, "value", e->value);
    tv_json_string_member(w, "origin", e->origin);
    tv_json_string_member(w, "type", e->type);
    tv_json_string_member(w, "unit", e->unit);
    tv_json_string_member(w, "default", e->default_value);
    tv_json_unsigned_member(w, "min", e->min);
    tv_json_unsigned_member(w, "max", e->max);
    tv_json_string_member(w, "meaning", e->meaning);
    tv_json_end_object(w);
}

static void write_validation_json(const tv_config *config, tv_json_writer *w)
{
    tv_config_validation v;
    tv_json_key(w, "validated");
    if (!tv_config_validation_of(config, &v)) {
        tv_json_write_null(w);
        return;
    }
    tv_json_begin_object(w);
    tv_json_string_member(w, "against", v.against);
    tv_json_unsigned_member(w, "cases", v.cases);
    cli_write_real(w, "mean_error", v.mean_error);
    cli_write_real(w, "worst_error", v.worst_error);
    tv_json_unsigned_member(w, "min_cycles", v.min_cycles);
    tv_json_unsigned_member(w, "max_cycles", v.max_cycles);
    tv_json_string_member(w, "changed", v.changed);
    tv_json_end_object(w);
}

static void print_validation(const tv_config *config)
{
    tv_config_validation v;
    if (!tv_config_validation_of(config, &v)) {
        printf("; validated against no measurements\n");
        return;
    }
    printf("; validated against %s: %" PRIu64 " cases of %" PRIu64 " to %" PRIu64 " cycles, mean error %.2f %%, worst "
           "%+.2f %%\n",
           CLI_SAFE(v.against), v.cases, v.min_cycles, v.max_cycles, v.mean_error, v.worst_error);
    if (v.changed)
        printf("; but with another value of %s\n", v.changed);
}

static void write_config_json(cli *c, const char *target, const tv_config *config)
{
    tv_config_entry e;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", target);
    tv_json_key(w, "parameters");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        write_entry_json(&e, w);
    tv_json_end_array(w);
    write_validation_json(config, w);
    tv_json_end_object(w);
}

static void write_energy_json(cli *c, const char *target, const tv_config *config)
{
    tv_energy_row row;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", target);
    tv_json_key(w, "energies");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++) {
        if (!row.used)
            continue;
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", row.name);
        tv_json_string_member(w, "component", row.component);
        tv_json_string_member(w, "unit", row.unit);
        tv_json_unsigned_member(w, "low_aj", row.low);
        tv_json_unsigned_member(w, "nominal_aj", row.nominal);
        tv_json_unsigned_member(w, "high_aj", row.high);
        tv_json_string_member(w, "meaning", row.meaning);
        tv_json_string_member(w, "rule", row.rule);
        tv_json_string_member(w, "source", row.source);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_end_object(w);
}

/* Picojoules of one action, and where they come from. */
static void print_energies(const tv_config *config)
{
    tv_energy_row row;
    printf("%-18s %-12s %12s %12s %12s\n", "action", "unit", "low, pJ", "nominal, pJ", "high, pJ");
    for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++)
        if (row.used)
            printf("%-18s %-12s %12.6f %12.6f %12.6f  ; %s [%s]\n", row.name, row.unit, (double)row.low * 1e-6,
                   (double)row.nominal * 1e-6, (double)row.high * 1e-6, row.rule,
                   row.source[0] ? row.source : "parameter");
}

/* Writes the file that an option names, if it is given. */
static tv_status write_table(cli *c, const char *option, const tv_config *config,
                             void (*write)(const tv_config *config, FILE *file))
{
    const char *path = cli_value(c, option);
    tv_output *output;
    if (!path)
        return TV_OK;
    tv_status status = tv_output_open(path, &c->sink, &output);
    if (status != TV_OK)
        return status;
    write(config, tv_output_stream(output));
    return tv_output_commit(output, &c->sink);
}

static int print_config(cli *c, const char *target, const char *profile)
{
    tv_config *config;
    tv_config_entry e;
    tv_status status = make_config(c, target, profile, &config);
    if (status == TV_OK && (status = tv_config_check(config, &c->sink)) != TV_OK)
        tv_config_free(config);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (status == TV_OK)
        status = write_table(c, "accelergy-ert", config, tv_energy_write_ert);
    if (status == TV_OK)
        status = write_table(c, "accelergy-art", config, tv_energy_write_art);
    if (status != TV_OK || cli_has(c, "accelergy-ert") || cli_has(c, "accelergy-art") || cli_has(c, "energy")) {
        if (status == TV_OK && cli_has(c, "energy") && c->json)
            write_energy_json(c, target, config);
        else if (status == TV_OK && cli_has(c, "energy"))
            print_energies(config);
        tv_config_free(config);
        return cli_exit_status(status);
    }
    if (c->json)
        write_config_json(c, target, config);
    for (unsigned i = 0; !c->json && tv_config_at(config, i, &e); i++)
        printf("%-24s = %-12s %-18s ; %s [%s]\n", e.key, CLI_SAFE(e.value), e.unit, e.meaning, CLI_SAFE(e.origin));
    if (!c->json)
        print_validation(config);
    tv_config_free(config);
    return CLI_OK;
}

static int run_config(cli *c)
{
    const char *profile = c->file_count ? c->files[0] : NULL;
    if (!profile && !cli_has(c, "config") && !cli_has(c, "set") && (cli_has(c, "list") || !cli_has(c, "target")))
        return list_profiles(c);
    char target[TV_CONFIG_TARGET];
    tv_status status = choose_target(c, profile, target);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (!target[0])
        return cli_error(c, CLI_E_TARGET, "give -t NAME, or write `target = NAME` into the section [profile] of a file",
                         profile || cli_has(c, "config") ? "the profile does not name its machine"
                                                         : "-D needs the machine of the parameter");
    return print_config(c, target, profile);
}

const cli_command cli_config = {
    .name = "config",
    .usage = "config [PROFILE|FILE] [-c FILE] [-t TARGET] [-D KEY=VALUE]",
    .summary = "list machine profiles, or print one with every parameter",
    .about =
        "A profile is named in full or without its machine, if only one machine has a profile of that name. An INI "
        "file names its machine by\n"
        "`target` in the section [profile]; -t names it otherwise.",
    .example =
        "  trivet config                   # the profiles\n  trivet config pccx-kv260\n  trivet config ./my.ini\n"
        "  trivet config kv260 -c my.ini   # my.ini over the profile\n  trivet config -t pccx -D l2.words=4096\n"
        "  trivet config kv260 --energy    # picojoules of each action\n  trivet config kv260 --accelergy-ert ert.yaml",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDj",
    .files_max = 1,
    .values = "PROFILE",
    .run = run_config,
};

static void write_targets_json(cli *c)
{
    tv_target_info t;
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_target_at(i, &t); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", t.name);
        tv_json_string_member(w, "title", t.title);
        tv_json_unsigned_member(w, "word_bits", t.word_bits);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static int run_targets(cli *c)
{
    tv_target_info t;
    if (c->json)
        write_targets_json(c);
    for (unsigned i = 0; !c->json && tv_target_at(i, &t); i++)
        if (c->quiet)
            printf("%s\n", t.name);
        else
            printf("%-10s %s\n", t.name, t.title);
    return CLI_OK;
}

const cli_command cli_targets = {.name = "targets",
                                 .usage = "targets",
                                 .summary = "list the machines",
                                 .common = "j",
                                 .example = "  trivet targets",
                                 .run = run_targets};

static int run_version(cli *c)
{
    if (!c->json) {
        printf("trivet %s\n", tv_version());
        return CLI_OK;
    }
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_string_member(w, "version", tv_version());
    tv_json_end_object(w);
    return CLI_OK;
}

const cli_command cli_version = {.name = "version",
                                 .usage = "version",
                                 .summary = "print the version",
                                 .common = "j",
                                 .example = "  trivet version",
                                 .run = run_version};
