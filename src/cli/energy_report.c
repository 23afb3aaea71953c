/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/energy_report.h"

const char *energy_format(tv_energy energy, uint64_t count, char text[ENERGY_TEXT])
{
    const char *units[] = {"aJ", "fJ", "pJ", "nJ", cli_symbol("µJ", "uJ"), "mJ", "J"};
    double unit = 1e-18 * (count ? (double)count : 1), nominal = tv_joules_value(energy.nominal);
    unsigned u = 0;
    for (; u + 1 < CLI_COUNTOF(units) && nominal >= 999.95 * unit; u++)
        unit *= 1000;
    snprintf(text, ENERGY_TEXT, "%.4g (%.4g to %.4g) %s", nominal / unit, tv_joules_value(energy.low) / unit,
             tv_joules_value(energy.high) / unit, units[u]);
    return text;
}

static const char *parameter(const tv_config *config, const char *key)
{
    tv_config_entry entry;
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        if (strcmp(entry.key, key) == 0)
            return entry.value;
    return "";
}

static double percent(tv_energy one, tv_energy all)
{
    double total = tv_joules_value(all.nominal);
    return total > 0 ? 100 * tv_joules_value(one.nominal) / total : 0;
}

static void print_engines(const tv_energy_stats *s, FILE *out)
{
    fprintf(out, "\n  engine              share  energy\n");
    for (unsigned e = 0; e < s->engine_count; e++)
        fprintf(out, "  %-17s %5.1f %%  %s\n", s->engines[e].name, percent(s->engines[e].energy, s->total),
                ENERGY(s->engines[e].energy));
    if (tv_joules_value(s->static_energy.nominal) > 0)
        fprintf(out, "  %-17s %5.1f %%  %s\n", "static", percent(s->static_energy, s->total), ENERGY(s->static_energy));
}

static void print_actions(const tv_config *config, const tv_energy_stats *s, FILE *out)
{
    tv_energy_row row;
    fprintf(out, "\n  action              share  %20s  energy\n", "count");
    for (unsigned i = 0; i < s->action_count && tv_energy_row_at(config, i, &row); i++)
        if (s->counts[i])
            fprintf(out, "  %-17s %5.1f %%  %20s  %s\n", row.name, percent(s->actions[i], s->total),
                    CLI_COUNT(s->counts[i]), ENERGY(s->actions[i]));
}

void energy_report_print(const tv_machine *machine, FILE *out)
{
    const tv_config *config = tv_machine_config(machine);
    tv_energy_stats s = {.size = sizeof s};
    tv_machine_energy(machine, &s);
    fprintf(out, "\n  energy %s, as %s at %s nm with %s\n", ENERGY(s.total),
            strcmp(parameter(config, "energy.fabric"), "fpga") == 0 ? "an FPGA" : "an ASIC",
            parameter(config, "energy.process_nm"), parameter(config, "energy.memory"));
    print_engines(&s, out);
    print_actions(config, &s, out);
}

void energy_report_write_json(const tv_machine *machine, tv_json_writer *w)
{
    tv_energy_stats s = {.size = sizeof s};
    tv_machine_energy(machine, &s);
    tv_json_key(w, "energy");
    tv_json_begin_object(w);
    (void)tv_energy_stats_write_json(w, tv_machine_config(machine), &s);
    tv_json_end_object(w);
}
