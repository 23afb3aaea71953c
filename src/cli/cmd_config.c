/* SPDX-License-Identifier: Apache-2.0 */
/* trivet config, targets, version: what there is. */
#include "cli/cli.h"

static const cli_option options[] = {
    {"list", 0, NULL, "list the names of the profiles alone", NULL},
};

static int list_profiles(cli *c)
{
    const char *name, *description;
    json_t *list = json_array();
    for (unsigned i = 0; tv_config_profile_at(cli_value(c, "target"), i, &name, &description); i++) {
        if (c->json)
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "description", description));
        else if (cli_has(c, "list"))
            printf("%s\n", name);
        else
            printf("%-16s %s\n", name, description);
    }
    if (c->json)
        cli_print_json(c, json_incref(list));
    else if (!cli_has(c, "list"))
        printf("\n`trivet config PROFILE` prints one with every parameter.\n");
    json_decref(list);
    return CLI_DONE;
}

/* The target that a profile's name begins with, else -t, else the only one there is. */
static const char *target_of(const cli *c, const char *profile)
{
    tv_target_info t; /* its strings are static */
    const char *given = cli_value(c, "target");
    for (unsigned i = 0; !given && tv_target_at(i, &t); i++)
        if (strncmp(profile, t.name, strlen(t.name)) == 0)
            return t.name;
    if (!given && !tv_target_at(1, &t) && tv_target_at(0, &t))
        return t.name;
    return given;
}

static json_t *entry_json(const tv_config_entry *e)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s}", "key", e->key, "value", e->value, "origin",
                     e->origin, "type", e->type, "unit", e->unit, "default", e->default_value, "min",
                     (json_int_t)e->min, "max", (json_int_t)e->max, "meaning", e->meaning);
}

/* The profile, then -c and -D over it. */
static tv_status make_config(cli *c, const char *target, const char *profile, tv_config **out)
{
    if (!profile)
        return cli_make_config(c, target, false, out);
    cli with_profile = *c;
    static const cli_option config_option = {"config", 'c', "PROFILE", NULL, NULL};
    cli_given *given = calloc(c->given_count + 1, sizeof *given);
    if (!given)
        return TV_ERR_MEMORY;
    given[0] = (cli_given){&config_option, profile};
    memcpy(given + 1, c->given, c->given_count * sizeof *given);
    with_profile.given = given;
    with_profile.given_count++;
    tv_status status = cli_make_config(&with_profile, target, false, out);
    free(given);
    return status;
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
    json_t *list = json_array();
    for (unsigned i = 0; tv_config_at(config, i, &e); i++) {
        if (c->json)
            json_array_append_new(list, entry_json(&e));
        else
            printf("%-24s = %-12s %-18s ; %s [%s]\n", e.key, e.value, e.unit, e.meaning, e.origin);
    }
    if (c->json)
        cli_print_json(c, json_pack("{s:s, s:O}", "target", target, "parameters", list));
    json_decref(list);
    tv_config_free(config);
    return CLI_DONE;
}

static int run_config(cli *c)
{
    const char *profile = c->file_count ? c->files[0] : NULL;
    if (!profile && !cli_has(c, "config") && !cli_has(c, "set") && (cli_has(c, "list") || !cli_has(c, "target")))
        return list_profiles(c);
    const char *target = target_of(c, profile ? profile : cli_has(c, "config") ? cli_value(c, "config") : "");
    if (!target)
        return cli_wrong(c, "give -t NAME; `trivet targets` lists the machines",
                         "the profile does not say which machine it is for");
    return print_config(c, target, profile);
}

const cli_command cli_config = {
    .name = "config",
    .usage = "config [PROFILE] [-c FILE] [-t TARGET] [-D KEY=VALUE]",
    .summary = "list machine profiles, or print one with every parameter",
    .example = "  trivet config                 # the profiles\n  trivet config pccx-kv260\n  trivet config kv260 -c "
               "my.ini   # my.ini over the profile\n  trivet config -t pccx -D l2.words=4096",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDj",
    .most = 1,
    .values = "PROFILE",
    .run = run_config,
};

static int run_targets(cli *c)
{
    tv_target_info t;
    json_t *list = json_array();
    for (unsigned i = 0; tv_target_at(i, &t); i++) {
        if (c->json)
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:i}", "name", t.name, "title", t.title, "word_bits", (int)t.word_bits));
        else if (c->quiet)
            printf("%s\n", t.name);
        else
            printf("%-10s %s\n", t.name, t.title);
    }
    if (c->json)
        cli_print_json(c, json_incref(list));
    json_decref(list);
    return CLI_DONE;
}

const cli_command cli_targets = {.name = "targets",
                                 .usage = "targets",
                                 .summary = "list the machines",
                                 .common = "j",
                                 .example = "  trivet targets",
                                 .run = run_targets};

static int run_version(cli *c)
{
    if (c->json)
        cli_print_json(c, json_pack("{s:s}", "version", tv_version()));
    else
        printf("trivet %s\n", tv_version());
    return CLI_DONE;
}

const cli_command cli_version = {.name = "version",
                                 .usage = "version",
                                 .summary = "print the version",
                                 .common = "j",
                                 .example = "  trivet version",
                                 .run = run_version};
