/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a waveform: a Value Change Dump (IEEE 1364) with a scope for each engine. Texts are variables of type
 * `string`, as GTKWave reads them. One unit of time is one cycle. */
#ifndef TV_TRACE_VCD_H
#define TV_TRACE_VCD_H

#include "trace/handler.h"

typedef struct tv_vcd tv_vcd;

/* A waveform without events; freed with tv_vcd_free. NULL: out of memory. */
tv_vcd *tv_vcd_new(void);
void tv_vcd_free(tv_vcd *vcd);

/* Functions of a tv_trace_handler whose `user` is a tv_vcd. Failures are kept for tv_vcd_write. */
bool tv_vcd_begin(void *user, const tv_trace_head *head);
bool tv_vcd_event(void *user, const tv_event *event, const tv_trace_extras *extras);

/* Writes the waveform. Write errors stick to the FILE. TV_ERR_IO: a temporary file failed; TV_ERR_MEMORY; TV_ERR_INPUT:
 * too many events. */
tv_status tv_vcd_write(tv_vcd *vcd, FILE *out, const tv_diag_sink *sink);

#endif
