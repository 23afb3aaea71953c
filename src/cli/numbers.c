/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in tables: bars, bytes, times, rates. */
#include "cli/cli.h"

/* The last block is drawn in eighths, so that 20 columns resolve less than one percent. */
void cli_print_bar(double fraction, bool color, FILE *out)
{
    static const char *const blocks[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    enum { WIDTH = 20 };
    int eighths = (int)(fraction * WIDTH * 8 + 0.5);
    int used = 0;
    fputs(color ? "\033[32m" : "", out);
    for (; eighths >= 8; eighths -= 8, used++)
        fputs("█", out);
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
        fprintf(out, "%.4g µs", seconds * 1e6);
    else if (seconds < 1)
        fprintf(out, "%.4g ms", seconds * 1e3);
    else {
        cli_print_number(seconds, 0, out);
        fputs(" s", out);
    }
}
