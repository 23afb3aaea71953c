/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the host between the programs of a network that is written (network.h): what those of several machines have
 * in common. A step may come from a file: all of it is checked. */
#ifndef TV_GRAPH_NETWORK_STEP_H
#define TV_GRAPH_NETWORK_STEP_H

#include "graph/network.h"

/* Rows of a table that the source, integers, selects: its numbers are the address of the table, the bytes of a row and
 * its rows. A negative index counts from the end; one that is outside selects row 0. */
#define TV_STEP_SELECT "select"

/* Reports that a step cannot be executed: "the step 'select' PROBLEM". Returns TV_ERR_INPUT. */
tv_status tv_network_step_fail(const tv_network_step *step, const char *problem, const tv_diag_sink *sink);

/* Checks that the source is a tensor. TV_ERR_INPUT. */
tv_status tv_network_step_check(const tv_network_step *step, const tv_diag_sink *sink);

/* Reads the source as a tensor of `element`, which the caller releases, also on errors. */
tv_status tv_network_step_source(tv_machine *machine, const tv_network_step *step, tv_element element, tv_tensor *out,
                                 const tv_diag_sink *sink);

/* Executes a step of TV_STEP_SELECT that has been checked. */
tv_status tv_network_step_select(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink);

#endif
