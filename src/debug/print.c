/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, locations and stops as text. */
#include <inttypes.h>

#include "debug/debug.h"

void tv_debug_print_address(const tv_debug *d, const char *space, uint64_t addr, tv_buf *out)
{
    tv_space s = {0};
    tv_debug_find_space(d, space, &s);
    if (s.bank_size)
        tv_buf_printf(out, "%s:%" PRIu64 ":0x%" PRIx64, space, addr / s.bank_size, addr % s.bank_size);
    else
        tv_buf_printf(out, "%s:0x%" PRIx64, space, addr);
}

void tv_debug_print_location(const tv_debug_location *location, tv_buf *out)
{
    if (location->label)
        tv_buf_str(out, location->label);
    if (location->label && location->offset)
        tv_buf_printf(out, "+%" PRIu64, location->offset);
    if (location->file)
        tv_buf_printf(out, "%s%s:%u", location->label ? "  " : "", location->file, location->line);
}

/* "breakpoint 1, watchpoint 3". A breakpoint that was deleted at its hit is no watchpoint. */
static void print_hits(const tv_debug *d, const tv_debug_stop *stop, tv_buf *out)
{
    for (unsigned h = 0; h < stop->hit_count && h < TV_DEBUG_HITS_MAX; h++) {
        bool watch = false;
        for (unsigned i = 0; i < d->breaks.count; i++)
            watch |= d->breaks.data[i].info.number == stop->hits[h] && d->breaks.data[i].info.kind == TV_BREAK_WATCH;
        tv_buf_printf(out, "%s%s %u", h ? ", " : "", watch ? "watchpoint" : "breakpoint", stop->hits[h]);
    }
    if (stop->hit_count > TV_DEBUG_HITS_MAX)
        tv_buf_printf(out, " and %u more", stop->hit_count - TV_DEBUG_HITS_MAX);
    if (!stop->watchpoint)
        return;
    tv_buf_printf(out, ": the next instruction %s %" PRIu64 " byte%s at ", stop->access.write ? "writes" : "reads",
                  stop->access.bytes, stop->access.bytes == 1 ? "" : "s");
    tv_debug_print_address(d, stop->access.space, stop->access.addr, out);
}

static void print_reason(tv_debug *d, const tv_debug_stop *stop, tv_buf *out)
{
    const tv_fault *fault = tv_machine_fault(d->machine);
    switch (stop->reason) {
    case TV_DEBUG_START:
        tv_buf_str(out, "at the start");
        break;
    case TV_DEBUG_STEP:
        return;
    case TV_DEBUG_BREAKPOINT:
    case TV_DEBUG_WATCH:
        print_hits(d, stop, out);
        break;
    case TV_DEBUG_FAULT:
        if (fault)
            tv_buf_printf(out, "machine fault: %s [%s %s]", fault->message, fault->code, fault->name);
        break;
    case TV_DEBUG_END:
        tv_buf_printf(out, "%s ended", d->count > 1 ? "the programs have" : "the program has");
        break;
    case TV_DEBUG_BEGINNING:
        tv_buf_str(out, "at the start: no earlier instruction");
        break;
    case TV_DEBUG_INTERRUPTED:
        tv_buf_str(out, "interrupted");
        break;
    }
    tv_buf_str(out, "\n");
}

void tv_debug_print_stop(tv_debug *d, const tv_debug_stop *stop, tv_buf *out)
{
    tv_debug_location location;
    tv_debug_current_location(d, &location);
    if (stop->dropped_writes)
        tv_buf_printf(out, "%" PRIu64 " later write%s dropped\n", stop->dropped_writes,
                      stop->dropped_writes == 1 ? "" : "s");
    print_reason(d, stop, out);
    if (location.end) {
        tv_buf_printf(out, "%" PRIu64 " instruction%s", location.position, location.position == 1 ? "" : "s");
        if (d->options.mode != TV_MODE_FUNCTIONAL)
            tv_buf_printf(out, ", %" PRIu64 " cycles", tv_machine_clock(d->machine));
        tv_buf_str(out, "\n");
        return;
    }
    tv_buf_printf(out, "=> %" PRIu64 "  %s\n", location.index, location.text);
    if (!location.label && !location.file)
        return;
    tv_buf_str(out, "   ");
    tv_debug_print_location(&location, out);
    if (d->count > 1)
        tv_buf_printf(out, "  program %u", location.program);
    tv_buf_str(out, "\n");
}
