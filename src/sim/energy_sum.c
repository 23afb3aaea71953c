/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of energies: whole attojoules in 128 bits. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json_writer.h"
#include "sim/energy.h"

static const uint64_t ATTO = UINT64_C(1000000000000000000);

static tv_u128 to_wide(tv_joules e) { return (tv_u128)e.joules * ATTO + e.attojoules; }

static tv_joules from_wide(tv_u128 attojoules)
{
    return (tv_joules){(uint64_t)(attojoules / ATTO), (uint64_t)(attojoules % ATTO)};
}

double tv_joules_value(tv_joules energy) { return (double)energy.joules + (double)energy.attojoules * 1e-18; }

tv_energy tv_energy_add(tv_energy a, tv_energy b)
{
    return (tv_energy){from_wide(to_wide(a.low) + to_wide(b.low)), from_wide(to_wide(a.nominal) + to_wide(b.nominal)),
                       from_wide(to_wide(a.high) + to_wide(b.high))};
}

tv_energy tv_energy_since(tv_energy after, tv_energy before)
{
    return (tv_energy){from_wide(to_wide(after.low) - to_wide(before.low)),
                       from_wide(to_wide(after.nominal) - to_wide(before.nominal)),
                       from_wide(to_wide(after.high) - to_wide(before.high))};
}

void tv_energy_accumulate(tv_energy *sum, const tv_energy_table *table, const uint64_t counts[TV_ACTION_COUNT])
{
    tv_u128 low = to_wide(sum->low), nominal = to_wide(sum->nominal), high = to_wide(sum->high);
    for (unsigned i = 0; i < TV_ACTION_COUNT; i++) {
        if (counts[i] == 0) /* most, of a single event */
            continue;
        low += (tv_u128)counts[i] * table->prices[i].low;
        nominal += (tv_u128)counts[i] * table->prices[i].nominal;
        high += (tv_u128)counts[i] * table->prices[i].high;
    }
    *sum = (tv_energy){from_wide(low), from_wide(nominal), from_wide(high)};
}

void tv_event_set_energy(tv_event *event, const tv_energy_table *table, const uint64_t counts[TV_ACTION_COUNT])
{
    tv_energy energy = {0};
    tv_energy_accumulate(&energy, table, counts);
    event->energy = energy;
}

static void write_end(tv_json_writer *w, const char *key, tv_joules energy)
{
    enum { DIGITS = 9 };
    tv_json_real_member(w, key, tv_joules_value(energy), DIGITS);
}

static void write_exact(tv_json_writer *w, tv_joules energy)
{
    char text[48];
    if (energy.joules)
        snprintf(text, sizeof text, "%" PRIu64 "%018" PRIu64, energy.joules, energy.attojoules);
    else
        snprintf(text, sizeof text, "%" PRIu64, energy.attojoules);
    tv_json_write_string(w, text);
}

void tv_energy_write_json(tv_json_writer *w, tv_energy energy)
{
    tv_json_begin_object(w);
    write_end(w, "low", energy.low);
    write_end(w, "nominal", energy.nominal);
    write_end(w, "high", energy.high);
    tv_json_key(w, "attojoules");
    tv_json_begin_array(w);
    write_exact(w, energy.low);
    write_exact(w, energy.nominal);
    write_exact(w, energy.high);
    tv_json_end_array(w);
    tv_json_end_object(w);
}
