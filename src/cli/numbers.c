/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in tables: bars, bytes, times, rates. */
#include <langinfo.h>
#include <locale.h>

#include "cli/cli.h"

/* The locale of the process stays "C", so the one of the environment is looked at without being set. One that is not
 * installed is known by its name. */
static bool has_utf8(void)
{
    const char *name = getenv("LC_ALL");
    if (!name || !*name)
        name = getenv("LC_CTYPE");
    if (!name || !*name)
        name = getenv("LANG");
    if (!name || !*name)
        return false;
    locale_t locale = newlocale(LC_CTYPE_MASK, name, (locale_t)0);
    if (!locale)
        return strstr(name, "UTF-8") || strstr(name, "utf8");
    bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

const char *cli_symbol(const char *utf8, const char *ascii) { return has_utf8() ? utf8 : ascii; }

/* The last block is drawn in eighths, so that 20 columns resolve less than one percent; in ASCII it is rounded. */
void cli_print_bar(double fraction, bool color, FILE *out)
{
    static const char *const blocks[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    enum { WIDTH = 20 };
    bool utf8 = has_utf8();
    int eighths = utf8 ? (int)(fraction * WIDTH * 8 + 0.5) : 8 * (int)(fraction * WIDTH + 0.5);
    int used = 0;
    fputs(color ? "\033[32m" : "", out);
    for (; eighths >= 8; eighths -= 8, used++)
        fputs(utf8 ? "█" : "#", out);
    if (eighths > 0) {
        fputs(blocks[eighths], out);
        used++;
    }
    fputs(color ? "\033[0m" : "", out);
    fprintf(out, "%*s", WIDTH - used, "");
}

void cli_print_bytes(double bytes, FILE *out)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned u = 0;
    while (bytes >= 10240 && u + 1 < CLI_COUNTOF(units)) {
        bytes /= 1024;
        u++;
    }
    fprintf(out, "%9.*f %-3s", u ? 1 : 0, bytes, units[u]);
}

const char *cli_format_count(uint64_t value, char text[32])
{
    char *p = text + 31;
    *p = '\0';
    for (unsigned digits = 0; digits == 0 || value; digits++, value /= 10) {
        if (digits && digits % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + value % 10);
    }
    return p;
}

void cli_print_number(double value, int width, FILE *out)
{
    if (value >= 1000)
        fprintf(out, "%-*.0f", width, value);
    else
        fprintf(out, "%-*.4g", width, value);
}

void cli_print_time(double seconds, FILE *out)
{
    if (seconds < 1e-6)
        fprintf(out, "%.4g ns", seconds * 1e9);
    else if (seconds < 1e-3)
        fprintf(out, "%.4g %s", seconds * 1e6, cli_symbol("µs", "us"));
    else if (seconds < 1)
        fprintf(out, "%.4g ms", seconds * 1e3);
    else {
        cli_print_number(seconds, 0, out);
        fputs(" s", out);
    }
}
