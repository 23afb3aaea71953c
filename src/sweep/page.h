/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep as one HTML page (web/). Its data are JSON:
 *
 *     {"format": 1, "version": "0.1.0", "title": "…", "search": "nsga2, 500 points", "total": 12288,
 *      "parameters": [{"name": "rows", "values": ["4", "8"]}],
 *      "objectives": [{"name": "cycles", "unit": "cycles", "goal": "min"}],
 *      "points": [{"id": 3, "values": [1], "objectives": [1200], "failure": null,
 *                  "reports": [{"workload": "a.s", "stats": {…}}]}]}
 *
 * `values` are indices of the parameters' values; `goal` is min or max; `objectives` is null for a failed point, whose
 * `failure` says why; `stats` as in `run --json`. `reports` may be missing. */
#ifndef TV_SWEEP_PAGE_H
#define TV_SWEEP_PAGE_H

#include <stdio.h>

#include "base/base.h"
#include "trivet/diag.h"

/* Writes the page of json[length]. `title` is escaped. As tv_page_write. */
tv_status tv_sweep_page_write(const char *json, size_t length, const char *title, FILE *out, const tv_diag_sink *sink);

#endif
