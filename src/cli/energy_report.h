/* SPDX-License-Identifier: Apache-2.0 */
/* Energies as text and as JSON. Every figure has its interval. */
#ifndef TV_CLI_ENERGY_REPORT_H
#define TV_CLI_ENERGY_REPORT_H

#include "cli/cli.h"

enum { ENERGY_TEXT = 64 };

/* "12.3 (6.1 to 24.6) nJ": nominal, low and high of `energy` divided by `count`, in the unit that suits the nominal
 * value. */
const char *energy_format(tv_energy energy, uint64_t count, char text[ENERGY_TEXT]);

#define ENERGY(value) energy_format(value, 1, (char[ENERGY_TEXT]){0})
#define MEAN_ENERGY(value, count) energy_format(value, count, (char[ENERGY_TEXT]){0})

/* The energy of everything that the machine has run: by engine and by action. */
void energy_report_print(const tv_machine *machine, FILE *out);

/* Writes the member "energy" into an open object. */
void energy_report_write_json(const tv_machine *machine, tv_json_writer *writer);

#endif
