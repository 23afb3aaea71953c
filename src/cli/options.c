/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments from the tables, through getopt_long. */
#include <getopt.h>
#include <unistd.h>

#include "cli/cli.h"

enum { OPTIONS_MAX = 48 };

/* A command names the ones it takes by letter in `common`. */
const cli_option cli_common_options[] = {
    {"target", 't', "TARGET", "the machine, where the file does not say it", "TARGET"},
    {"config", 'c', "PROFILE", "a machine profile, or the path of an INI file; may be repeated", "PROFILE"},
    {"set", 'D', "KEY=VALUE", "override one machine parameter; may be repeated", NULL},
    {"include", 'I', "DIR", "folder for .include and .incbin; may be repeated", "FILE"},
    {"define", 'd', "NAME=VALUE", "define a constant before assembling; may be repeated", NULL},
    {"json", 'j', NULL, "print the result as JSON on standard output", NULL},
    {"quiet", 'q', NULL, "print results and errors alone", NULL},
    {"verbose", 'v', NULL, "say more", NULL},
    {"color", 'C', "WHEN", "colour: auto, always or never", "auto always never"},
    {"help", 'h', NULL, "show this help", NULL},
    {0},
};

unsigned cli_options_of(const cli_command *command, const cli_option *out[], unsigned most)
{
    unsigned n = 0;
    for (unsigned i = 0; i < command->option_count && n < most; i++)
        out[n++] = &command->options[i];
    for (const cli_option *o = cli_common_options; o->name && n < most; o++)
        if (strchr(command->common, o->letter) || strchr("qvCh", o->letter))
            out[n++] = o;
    return n;
}

static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned row[64];
    if (n > 60 || m > 60)
        return 99;
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            unsigned d = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned least = row[j - 1] < row[j] ? row[j - 1] + 1 : row[j] + 1;
            row[j] = d < least ? d : least;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *word, const char *(*candidate)(unsigned i, const void *user), const void *user)
{
    const char *best = NULL, *name;
    unsigned limit = (unsigned)strlen(word) / 3 + 2;
    for (unsigned i = 0; (name = candidate(i, user)); i++) {
        unsigned d = distance(word, name);
        bool prefix = strlen(word) >= 2 && strncmp(word, name, strlen(word)) == 0;
        if (d < limit || (prefix && !best)) {
            limit = d < limit ? d : limit;
            best = name;
        }
    }
    return best;
}

static const char *option_name(unsigned i, const void *user)
{
    const cli_option *options[OPTIONS_MAX];
    unsigned n = cli_options_of(user, options, OPTIONS_MAX);
    return i < n ? options[i]->name : NULL;
}

static int unknown_option(cli *c, const char *text, int letter)
{
    char hint[128];
    snprintf(hint, sizeof hint, "`trivet %s --help` lists the options", c->command->name);
    if (letter)
        return cli_wrong(c, hint, "unknown option '-%c'", letter);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *best = cli_nearest(name, option_name, c->command);
    if (best)
        snprintf(hint, sizeof hint, "did you mean '--%s'?", best);
    return cli_wrong(c, hint, "unknown option '%s'", text);
}

/* getopt's tables, made from ours. Every option is found by its position. */
typedef struct getopt_tables {
    const cli_option *options[OPTIONS_MAX];
    unsigned count;
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 2];
} getopt_tables;

static void build_tables(const cli_command *command, getopt_tables *t)
{
    t->count = cli_options_of(command, t->options, OPTIONS_MAX);
    size_t n = 0;
    t->shorts[n++] = ':'; /* a missing argument is told apart from an unknown option */
    for (unsigned i = 0; i < t->count; i++) {
        const cli_option *o = t->options[i];
        t->longs[i] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL, 256 + (int)i};
        /* -j and -C exist as names alone: they only select common options */
        if (o->letter && o->letter != 'j' && o->letter != 'C') {
            t->shorts[n++] = o->letter;
            if (o->arg)
                t->shorts[n++] = ':';
        }
    }
    t->longs[t->count] = (struct option){0};
    t->shorts[n] = '\0';
}

static const cli_option *find_option(const getopt_tables *t, int code)
{
    if (code >= 256)
        return t->options[code - 256];
    for (unsigned i = 0; i < t->count; i++)
        if (t->options[i]->letter == code)
            return t->options[i];
    return NULL;
}

static int apply_color(cli *c)
{
    const char *when = cli_value(c, "color");
    if (!when || strcmp(when, "auto") == 0) {
        bool plain = getenv("NO_COLOR") != NULL;
        c->color = !plain && isatty(STDERR_FILENO);
        c->out_color = !plain && isatty(STDOUT_FILENO);
        return CLI_DONE;
    }
    c->color = c->out_color = strcmp(when, "always") == 0;
    return c->color || strcmp(when, "never") == 0
               ? CLI_DONE
               : cli_wrong(c, "use auto, always or never", "--color cannot be '%s'", when);
}

int cli_parse(cli *c, int argc, char **argv)
{
    getopt_tables t;
    build_tables(c->command, &t);
    c->given = calloc((size_t)argc + 1, sizeof *c->given);
    c->files = calloc((size_t)argc + 1, sizeof *c->files);
    if (!c->given || !c->files)
        return CLI_FAILED;
    opterr = 0;
    optind = 1;
    for (;;) {
        int before = optind;
        int code = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (code == -1)
            break;
        if (code == ':')
            return cli_wrong(c, NULL, "option '%s' needs its argument", argv[optind - 1]);
        if (code == '?') {
            const char *text = argv[optind > before ? optind - 1 : before];
            bool is_long = strncmp(text, "--", 2) == 0;
            if (is_long && optopt >= 256)
                return cli_wrong(c, NULL, "option '%s' takes no argument", text);
            return unknown_option(c, text, is_long ? 0 : optopt);
        }
        c->given[c->given_count++] = (cli_given){find_option(&t, code), optarg};
    }
    c->quiet = cli_has(c, "quiet");
    c->verbose = cli_has(c, "verbose");
    c->json = cli_has(c, "json");
    int status = apply_color(c);
    if (status != CLI_DONE)
        return status;
    if (cli_has(c, "help"))
        return -1;
    while (optind < argc)
        c->files[c->file_count++] = argv[optind++];
    if (c->file_count < c->command->least || c->file_count > c->command->most) {
        char hint[160];
        snprintf(hint, sizeof hint, "usage: trivet %s", c->command->usage);
        return cli_wrong(
            c, hint, c->file_count < c->command->least ? "too few arguments for '%s'" : "too many arguments for '%s'",
            c->command->name);
    }
    return CLI_DONE;
}

const char *cli_value_at(const cli *c, const char *name, unsigned i)
{
    for (unsigned k = 0; k < c->given_count; k++)
        if (strcmp(c->given[k].option->name, name) == 0 && i-- == 0)
            return c->given[k].value ? c->given[k].value : "";
    return NULL;
}

const char *cli_value(const cli *c, const char *name)
{
    const char *last = NULL, *value;
    for (unsigned i = 0; (value = cli_value_at(c, name, i)); i++)
        last = value;
    return last;
}

bool cli_has(const cli *c, const char *name) { return cli_value_at(c, name, 0) != NULL; }
