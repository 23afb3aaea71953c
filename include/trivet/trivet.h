/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library. Every public header is included here; each also compiles alone.
 *
 * Rules for every function, unless its comment says otherwise:
 *
 * Status. A function that can fail returns tv_status. Its comment lists the codes it returns besides TV_OK. A function
 * that looks something up returns int: 1 when it is found, otherwise 0.
 * Results. Out-parameters must not be NULL and are untouched unless the function succeeds.
 * NULL. A pointer must not be NULL unless the comment says that it may be. A `sink` may always be NULL: diagnostics are
 * dropped. A function that frees (`_free`, `_abandon`) accepts NULL and does nothing.
 * Strings are UTF-8 and NUL-terminated. They are copied when they are needed after the call.
 * Ownership. `_new` and `_open` return an object that the caller frees with the `_free` of that type. Objects and bytes
 * that are passed in are not freed; a comment says when the library keeps a pointer ("borrowed").
 * Threads. Different objects may be used from different threads at once. One object belongs to one thread at a time,
 * except that const objects which their header calls read-only may be shared.
 * The library does not print, exit, or change the locale, and its only global state is constant, but for instructions
 * that tv_extension_load adds.
 *
 * Structs that may grow (tv_program_options, tv_run_limits, tv_debug_options, tv_llm_options, tv_llm_sampling,
 * tv_network_open_options, tv_generate_options, tv_cover_close_options, tv_fit_options,
 * tv_network_session_options, tv_network_summary, tv_reduce_options, tv_scoreboard_options, tv_stats, tv_sweep_options,
 * tv_llm_summary, tv_llm_likelihood, tv_energy_stats) begin with `size_t size`, which the caller sets to sizeof of the
 * struct before the call. Members are only added at the end. A smaller struct of an older version is accepted: missing
 * input members count as zero, output members are not written. Of a larger struct of a newer version the unknown
 * members are ignored. A size below that of the first version, 0 included, is TV_ERR_INPUT. Structs that the library
 * allocates and passes by const pointer (tv_diag, tv_event, tv_fault, tv_trace_summary, tv_trace_diff) may grow at
 * their end, too. All others, and the enumerators' values, are fixed within a major version. */
#ifndef TRIVET_TRIVET_H
#define TRIVET_TRIVET_H

#include "trivet/codec.h"
#include "trivet/commit.h"
#include "trivet/config.h"
#include "trivet/cosim.h"
#include "trivet/cover.h"
#include "trivet/debug.h"
#include "trivet/diag.h"
#include "trivet/dtype.h"
#include "trivet/energy.h"
#include "trivet/extension.h"
#include "trivet/file.h"
#include "trivet/gen.h"
#include "trivet/json.h"
#include "trivet/llm.h"
#include "trivet/machine.h"
#include "trivet/memory_file.h"
#include "trivet/network.h"
#include "trivet/program.h"
#include "trivet/report.h"
#include "trivet/status.h"
#include "trivet/sweep.h"
#include "trivet/text.h"
#include "trivet/trace.h"
#include "trivet/trace_file.h"
#include "trivet/unit.h"
#include "trivet/validate.h"
#include "trivet/window.h"

#endif
