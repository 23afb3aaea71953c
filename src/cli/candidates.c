/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of shell completion that depend on the command line: machines, parameters, mnemonics, symbols. Errors are
 * silent: there are no candidates then. */
#include "cli/cli.h"
#include "trivet/llm.h"

typedef struct line {
    const char *const *words; /* "trivet", the command, … */
    unsigned count;
    const char *current; /* the incomplete word, without `--option=` */
} line;

/* ---- What the command line says ---- */

/* The value of an option with the letter or name, wherever it is complete; NULL: none. */
static const char *find_value(const line *l, char letter, const char *name)
{
    size_t n = strlen(name);
    for (unsigned i = 1; i + 1 < l->count; i++) {
        const char *w = l->words[i];
        bool is_short = w[0] == '-' && w[1] == letter && w[1] != '\0';
        if (is_short && w[2])
            return w + 2;
        if ((is_short || (strncmp(w, "--", 2) == 0 && strcmp(w + 2, name) == 0)) && i + 2 < l->count)
            return l->words[i + 1];
        if (strncmp(w, "--", 2) == 0 && strncmp(w + 2, name, n) == 0 && w[n + 2] == '=')
            return w + n + 3;
    }
    return NULL;
}

static const char *known_target(const char *name)
{
    tv_target_info info;
    for (unsigned i = 0; name && tv_target_at(i, &info); i++)
        if (strcmp(info.name, name) == 0)
            return info.name;
    return NULL;
}

/* The last complete word that is a program file; NULL: none. The caller frees it. */
static tv_program *open_program(const line *l)
{
    if (l->count < 2 || strcmp(l->words[1], "llm") == 0) /* a model is no program */
        return NULL;
    for (unsigned i = l->count - 1; i-- > 2;) {
        tv_program_options options = {.size = sizeof options, .target = known_target(find_value(l, 't', "target"))};
        tv_program *program;
        const char *ending = strrchr(l->words[i], '.');
        if (l->words[i][0] != '-' && ending && tv_program_open(l->words[i], &options, NULL, &program) == TV_OK)
            return program;
    }
    return NULL;
}

/* The machine that -t, a profile or the program names; NULL: none. `program` may be NULL. */
static const char *find_target(const line *l, const tv_program *program)
{
    char name[TV_CONFIG_TARGET];
    const char *target = known_target(find_value(l, 't', "target")), *profile = find_value(l, 'c', "config");
    if (!target && program)
        target = tv_program_target(program);
    if (!target && profile && tv_config_profile_target(profile, NULL, name) == TV_OK)
        target = known_target(name);
    return target;
}

/* ---- Kinds ---- */

static void print_targets(const line *l)
{
    tv_target_info info;
    (void)l;
    for (unsigned i = 0; tv_target_at(i, &info); i++)
        puts(info.name);
}

static void print_model_targets(const line *l)
{
    const char *name;
    (void)l;
    for (unsigned i = 0; (name = tv_llm_target_at(i)); i++)
        puts(name);
    puts("all");
}

static void print_profiles(const line *l)
{
    const char *name, *description;
    const char *target = find_target(l, NULL);
    for (unsigned i = 0; tv_config_profile_at(target, i, &name, &description); i++)
        puts(name);
}

static void print_commands(const line *l)
{
    (void)l;
    for (unsigned i = 0; cli_commands[i]; i++)
        puts(cli_commands[i]->name);
}

/* `key=`, or after the equals sign `key=value`: the values of an enumeration, the default of a number. */
static void print_setting(const line *l, const tv_config_entry *e)
{
    size_t n = strlen(e->key);
    bool has_key = strncmp(l->current, e->key, n) == 0 && l->current[n] == '=';
    if (!has_key && !strchr(l->current, '='))
        printf("%s=\n", e->key);
    if (!has_key)
        return;
    if (strcmp(e->type, "enum") != 0) {
        printf("%s=%s\n", e->key, e->value);
        return;
    }
    for (const char *value = e->unit; *value;) {
        size_t length = strcspn(value, "|");
        printf("%s=%.*s\n", e->key, (int)length, value);
        value += length + (value[length] == '|');
    }
}

static void print_settings_of(const line *l, const char *target)
{
    tv_config *config;
    tv_config_entry entry;
    const char *profile = find_value(l, 'c', "config");
    if (tv_config_new(target, NULL, &config) != TV_OK)
        return;
    if (profile)
        (void)tv_config_load(config, profile, NULL); /* its values are the ones to change */
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        print_setting(l, &entry);
    tv_config_free(config);
}

static void print_settings(const line *l)
{
    tv_program *program = open_program(l);
    tv_target_info info;
    const char *target = find_target(l, program);
    if (target)
        print_settings_of(l, target);
    for (unsigned i = 0; !target && tv_target_at(i, &info); i++)
        print_settings_of(l, info.name);
    tv_program_free(program);
}

/* Keys of parameters, after the complete ones of a list with commas. */
static void print_parameters(const line *l)
{
    tv_target_info info;
    tv_config *config;
    tv_config_entry entry;
    const char *target = find_target(l, NULL), *comma = strrchr(l->current, ',');
    int n = comma ? (int)(comma - l->current) + 1 : 0;
    for (unsigned t = 0; tv_target_at(t, &info); t++) {
        if ((target && strcmp(target, info.name) != 0) || tv_config_new(info.name, NULL, &config) != TV_OK)
            continue;
        for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
            printf("%.*s%s\n", n, l->current, entry.key);
        tv_config_free(config);
    }
}

/* `space:`, or after the colon `space:symbol` and `end` for each symbol of the data. */
static void print_addresses(const line *l, const char *end)
{
    tv_program *program = open_program(l);
    const char *target = find_target(l, program), *colon = strchr(l->current, ':');
    tv_config *config = NULL;
    tv_machine *machine = NULL;
    tv_space space;
    tv_symbol symbol;
    if (target && tv_config_new(target, NULL, &config) == TV_OK)
        (void)tv_machine_new(config, TV_MODE_FUNCTIONAL, NULL, &machine);
    for (unsigned i = 0; machine && !colon && tv_machine_space_at(machine, i, &space); i++)
        printf("%s:\n", space.name);
    for (uint64_t i = 0; program && colon && tv_program_symbol_at(program, i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_DATA)
            printf("%.*s:%s%s\n", (int)(colon - l->current), l->current, CLI_SAFE(symbol.name), end);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
}

static void print_ranges(const line *l) { print_addresses(l, ":"); }

static void print_fills(const line *l) { print_addresses(l, "="); }

static void print_labels(const line *l)
{
    tv_program *program = open_program(l);
    tv_symbol symbol;
    for (uint64_t i = 0; program && tv_program_symbol_at(program, i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_TEXT)
            cli_print_line(stdout, symbol.name);
    tv_program_free(program);
}

/* The machines, or after one of them its mnemonics. */
static void print_instructions(const line *l)
{
    const char *target = NULL;
    tv_codec *codec;
    tv_insn_info info;
    char last[64] = "";
    for (unsigned i = 2; i + 1 < l->count && !target; i++)
        target = known_target(l->words[i]);
    if (!target) {
        print_targets(l);
        return;
    }
    if (tv_codec_new(target, NULL, &codec) != TV_OK)
        return;
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++) {
        if (strcmp(info.mnemonic, last) != 0)
            puts(info.mnemonic);
        snprintf(last, sizeof last, "%s", info.mnemonic);
    }
    tv_codec_free(codec);
}

static void print_codes(const line *l)
{
    tv_code_info info;
    (void)l;
    for (unsigned i = 0; tv_code_at(i, &info); i++)
        printf("%s\n%s\n", info.code, info.name);
}

bool cli_print_candidates(const char *kind, const char *const *words, unsigned count)
{
    static const struct {
        const char *name;
        void (*print)(const line *l);
    } kinds[] = {
        {"TARGET", print_targets},   {"MODEL_TARGET", print_model_targets},
        {"PROFILE", print_profiles}, {"COMMAND", print_commands},
        {"SETTING", print_settings}, {"PARAMETER", print_parameters},
        {"RANGE", print_ranges},     {"FILL", print_fills},
        {"LABEL", print_labels},     {"INSTRUCTION", print_instructions},
        {"CODE", print_codes},
    };
    line l = {words, count, count ? words[count - 1] : ""};
    const char *equals = strchr(l.current, '=');
    if (strncmp(l.current, "--", 2) == 0 && equals)
        l.current = equals + 1;
    for (size_t i = 0; i < CLI_COUNTOF(kinds); i++)
        if (strcmp(kind, kinds[i].name) == 0) {
            kinds[i].print(&l);
            return true;
        }
    return false;
}
