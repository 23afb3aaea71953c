/* SPDX-License-Identifier: Apache-2.0 */
/* Parses arguments with getopt_long, whose tables are built from the tables of options. */
#include <getopt.h>
#include <unistd.h>

#include "cli/cli.h"

enum { OPTIONS_MAX = 48 };

/* cli_command.common lists the letters that a command accepts; all accept -q, -v, --color and -h. The letters j, C, A
 * and L only select options, which have no short form: A and L come with I. X is on every command. */
const cli_option cli_common_options[] = {
    {"target", 't', "TARGET", "the machine, if the file does not name it", "TARGET"},
    {"config", 'c', "PROFILE", "a machine profile, or the path of an INI file; may be repeated", "PROFILE"},
    {"set", 'D', "KEY=VALUE", "override one machine parameter; may be repeated", "SETTING"},
    {"include", 'I', "DIR", "directory for .include and .incbin; may be repeated", "FILE"},
    {"allow-paths", 'A', NULL, "let .include and .incbin read any file, not only below the source's folder and -I",
     NULL},
    {"line-limit", 'L', "N", "lines that macros, repeats and files included again may make (default: 1000000)", NULL},
    {"define", 'd', "NAME=VALUE", "define a constant before assembling; may be repeated", NULL},
    {"json", 'j', NULL, "print the result as JSON on standard output", NULL},
    {"quiet", 'q', NULL, "print only results, warnings and errors", NULL},
    {"verbose", 'v', NULL, "print more details", NULL},
    {"extension", 'X', "FILE", "load instructions from a shared object, whose code is executed; may be repeated",
     "FILE"},
    {"color", 'C', "WHEN", "colour: auto, always or never", "auto always never"},
    {"help", 'h', NULL, "show this help", NULL},
    {0},
};

bool cli_has_short_form(const cli_option *option) { return option->letter && !strchr("jCALX", option->letter); }

unsigned cli_list_options(const cli_command *command, const cli_option *out[], unsigned max)
{
    unsigned n = 0;
    for (unsigned i = 0; i < command->option_count && n < max; i++)
        out[n++] = &command->options[i];
    for (const cli_option *o = cli_common_options; o->name && n < max; o++)
        if (strchr(command->common, strchr("AL", o->letter) ? 'I' : o->letter) || strchr("qvXCh", o->letter))
            out[n++] = o;
    return n;
}

/* Edit distance without transpositions; 99: too long. */
static unsigned edit_distance(const char *a, const char *b)
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
            unsigned best = row[j - 1] < row[j] ? row[j - 1] + 1 : row[j] + 1;
            row[j] = d < best ? d : best;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *word, const char *(*candidate)(unsigned i, const void *user), const void *user)
{
    const char *best = NULL, *name;
    unsigned limit = (unsigned)strlen(word) / 3 + 2;
    for (unsigned i = 0; (name = candidate(i, user)); i++) {
        unsigned d = edit_distance(word, name);
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
    unsigned n = cli_list_options(user, options, OPTIONS_MAX);
    return i < n ? options[i]->name : NULL;
}

static int fail_option(cli *c, const char *text, int letter)
{
    char hint[128];
    snprintf(hint, sizeof hint, "`trivet %s --help` lists the options", c->command->name);
    if (letter)
        return cli_error(c, CLI_E_OPTION, hint, "unknown option '-%c'", letter);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *best = cli_nearest(name, option_name, c->command);
    if (best)
        snprintf(hint, sizeof hint, "did you mean '--%s'?", best);
    return cli_error(c, CLI_E_OPTION, hint, "unknown option '%s'", text);
}

/* The tables of getopt. The code of a long option is 256 plus its index in `options`. */
typedef struct getopt_tables {
    const cli_option *options[OPTIONS_MAX];
    unsigned count;
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 2];
} getopt_tables;

static void build_getopt_tables(const cli_command *command, getopt_tables *t)
{
    t->count = cli_list_options(command, t->options, OPTIONS_MAX);
    size_t n = 0;
    t->shorts[n++] = ':'; /* report missing arguments as ':' */
    for (unsigned i = 0; i < t->count; i++) {
        const cli_option *o = t->options[i];
        t->longs[i] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL, 256 + (int)i};
        if (cli_has_short_form(o)) {
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
        bool no_color = getenv("NO_COLOR") != NULL;
        c->color = !no_color && isatty(STDERR_FILENO);
        c->out_color = !no_color && isatty(STDOUT_FILENO);
        return CLI_OK;
    }
    c->color = c->out_color = strcmp(when, "always") == 0;
    return c->color || strcmp(when, "never") == 0
               ? CLI_OK
               : cli_error(c, CLI_E_VALUE, "use auto, always or never", "--color cannot be '%s'", when);
}

static int read_line_limit(cli *c)
{
    const char *text = cli_value(c, "line-limit");
    if (!text || (cli_parse_number(text, &c->line_limit) && c->line_limit > 0))
        return CLI_OK;
    return cli_error(c, CLI_E_VALUE, "the range is 1 to 2^64 - 1", "--line-limit cannot be '%s'", text);
}

/* Before the command, which then knows their instructions. */
static int load_extensions(cli *c)
{
    const char *path;
    for (unsigned i = 0; (path = cli_value_at(c, "extension", i)); i++) {
        tv_status status = tv_extension_load(path, &c->sink);
        if (status != TV_OK)
            return cli_exit_status(status);
    }
    return CLI_OK;
}

int cli_parse(cli *c, int argc, char **argv)
{
    getopt_tables t;
    build_getopt_tables(c->command, &t);
    c->arguments = calloc((size_t)argc + 1, sizeof *c->arguments);
    c->files = calloc((size_t)argc + 1, sizeof *c->files);
    if (!c->arguments || !c->files)
        return CLI_FAILED;
    opterr = 0;
    optind = 1;
    for (;;) {
        int before = optind;
        int code = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (code == -1)
            break;
        if (code == ':')
            return cli_error(c, CLI_E_ARGUMENT, NULL, "option '%s' needs an argument", argv[optind - 1]);
        if (code == '?') {
            const char *text = argv[optind > before ? optind - 1 : before];
            bool is_long = strncmp(text, "--", 2) == 0;
            if (is_long && optopt >= 256)
                return cli_error(c, CLI_E_ARGUMENT, NULL, "option '%s' takes no argument", text);
            return fail_option(c, text, is_long ? 0 : optopt);
        }
        c->arguments[c->argument_count++] = (cli_argument){find_option(&t, code), optarg};
    }
    c->quiet = cli_has(c, "quiet");
    c->verbose = cli_has(c, "verbose");
    c->json = cli_has(c, "json");
    int status = apply_color(c);
    if (status == CLI_OK)
        status = read_line_limit(c);
    if (status != CLI_OK)
        return status;
    if (cli_has(c, "help"))
        return CLI_SHOW_HELP;
    status = load_extensions(c);
    if (status != CLI_OK)
        return status;
    while (optind < argc)
        c->files[c->file_count++] = argv[optind++];
    if (c->file_count < c->command->files_min || c->file_count > c->command->files_max) {
        char hint[160];
        snprintf(hint, sizeof hint, "usage: trivet %s", c->command->usage);
        return cli_error(c, CLI_E_COUNT, hint,
                         c->file_count < c->command->files_min ? "too few arguments for '%s'"
                                                               : "too many arguments for '%s'",
                         c->command->name);
    }
    return CLI_OK;
}

const char *cli_value_at(const cli *c, const char *name, unsigned i)
{
    for (unsigned k = 0; k < c->argument_count; k++)
        if (strcmp(c->arguments[k].option->name, name) == 0 && i-- == 0)
            return c->arguments[k].value ? c->arguments[k].value : "";
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
