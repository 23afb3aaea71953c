/* SPDX-License-Identifier: Apache-2.0 */
/* Build-time tool: writes machine profiles (INI files) as the C array tv_embedded_profiles, or any files as arrays of
 * bytes.
 *
 * - embed OUT.c FILE.ini …: profiles, named like the files without directory and extension
 * - embed --bytes OUT.c NAME=FILE …: each file as an array NAME of NAME_size bytes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "embed: %s '%s'\n", what, path);
    return 1;
}

static void print_name(FILE *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    fprintf(out, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
}

static int write_bytes(FILE *out, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return fail("cannot read", path);
    fputs("[] = {", out);
    int c;
    for (unsigned long n = 0; (c = getc(in)) != EOF; n++)
        fprintf(out, n % 20 ? "%d," : "\n%d,", c);
    fputs("0};\n", out);
    fclose(in);
    return 0;
}

/* The value of the line `description = …`, escaped for a C string. */
static void print_description(FILE *out, const char *path)
{
    char line[512];
    FILE *in = fopen(path, "r");
    while (in && fgets(line, sizeof line, in)) {
        const char *value = strncmp(line, "description", 11) == 0 ? strchr(line, '=') : NULL;
        if (!value)
            continue;
        for (value += 1 + strspn(value + 1, " "); *value && *value != '\n'; value++) {
            if (*value == '"' || *value == '\\')
                putc('\\', out);
            putc(*value, out);
        }
        break;
    }
    if (in)
        fclose(in);
}

static int write_files(int count, char **arguments)
{
    FILE *out = fopen(arguments[0], "w");
    if (!out)
        return fail("cannot write", arguments[0]);
    fputs("/* Made by tools/embed.c. */\n#include <stddef.h>\n", out);
    for (int i = 1; i < count; i++) {
        const char *path = strchr(arguments[i], '=');
        int n = path ? (int)(path - arguments[i]) : 0;
        if (!path)
            return fail("not NAME=FILE:", arguments[i]);
        fprintf(out, "extern const unsigned char %.*s[];\nextern const size_t %.*s_size;\nconst unsigned char %.*s", n,
                arguments[i], n, arguments[i], n, arguments[i]);
        if (write_bytes(out, path + 1))
            return 1;
        fprintf(out, "const size_t %.*s_size = sizeof %.*s - 1;\n", n, arguments[i], n, arguments[i]);
    }
    return fclose(out) == 0 ? 0 : fail("cannot write", arguments[0]);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fail("usage: embed OUT.c FILE.ini …, or embed --bytes OUT.c NAME=FILE …", "");
    if (strcmp(argv[1], "--bytes") == 0)
        return write_files(argc - 2, argv + 2);
    FILE *out = fopen(argv[1], "w");
    if (!out)
        return fail("cannot write", argv[1]);
    fputs("/* Made from configs/ by tools/embed.c. */\n#include \"base/schema.h\"\n\n", out);
    for (int i = 2; i < argc; i++) {
        fprintf(out, "static const unsigned char data_%d", i);
        if (write_bytes(out, argv[i]))
            return 1;
    }
    fputs("\nconst tv_embedded tv_embedded_profiles[] = {\n", out);
    for (int i = 2; i < argc; i++) {
        fputs("    {\"", out);
        print_name(out, argv[i]);
        fputs("\", \"", out);
        print_description(out, argv[i]);
        fprintf(out, "\", data_%d, sizeof data_%d - 1},\n", i, i);
    }
    fputs("    {0},\n};\n", out);
    return fclose(out) == 0 ? 0 : fail("cannot write", argv[1]);
}
