/* SPDX-License-Identifier: Apache-2.0 */
/* The energy table in the form of Accelergy: an energy reference table (ERT) and an area reference table (ART). */
#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "base/c_locale.h"
#include "trivet/energy.h"

/* Of "l2_read", which belongs to the component l2, "read". */
static const char *short_name(const char *name)
{
    const char *separator = strchr(name, '_');
    return separator ? separator + 1 : name;
}

static void print_rows(const tv_config *config, const char *component, FILE *file)
{
    tv_energy_row row;
    fprintf(file, "  - name: %s.%s\n    actions:\n", tv_config_target(config), component);
    for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++) {
        if (!row.used || strcmp(row.component, component) != 0)
            continue;
        fprintf(file, "    # one %s: %s; %.6f to %.6f\n", row.unit, row.meaning, (double)row.low * 1e-6,
                (double)row.high * 1e-6);
        fprintf(file, "    - name: %s\n      arguments: null\n      energy: %.6f\n", short_name(row.name),
                (double)row.nominal * 1e-6);
    }
}

/* Whether an earlier row has the component of row `i`. */
static bool is_repeated(const tv_config *config, unsigned i, const char *component)
{
    tv_energy_row row;
    for (unsigned k = 0; k < i && tv_energy_row_at(config, k, &row); k++)
        if (row.used && strcmp(row.component, component) == 0)
            return true;
    return false;
}

void tv_energy_write_ert(const tv_config *config, FILE *file)
{
    tv_energy_row row;
    tv_c_locale locale = tv_c_locale_begin();
    fprintf(file,
            "# Energies of trivet %s in picojoules, nominal; the comments have their intervals. Sources and rules: "
            "trivet config --energy.\nERT:\n  version: '0.4'\n  tables:\n",
            tv_version());
    for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++)
        if (row.used && !is_repeated(config, i, row.component))
            print_rows(config, row.component, file);
    tv_c_locale_end(locale);
}

void tv_energy_write_art(const tv_config *config, FILE *file)
{
    fprintf(file,
            "# There are no areas: no public source has those of %s, and the sources of the energies have none.\n"
            "ART:\n  version: '0.4'\n  tables: []\n",
            tv_config_target(config));
}
