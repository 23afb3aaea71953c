/* SPDX-License-Identifier: Apache-2.0 */
/* Results in a database (SQLite). A row is the result of one workload on one configuration; its key is the SHA-256 of
 * everything that the result depends on: workload, configuration and version. A row is never changed. Any thread may
 * call the functions. */
#ifndef TV_SWEEP_STORE_H
#define TV_SWEEP_STORE_H

#include "sweep/evaluate.h"

enum { STORE_KEY = 65 };

typedef struct sweep_store sweep_store;

/* A row besides its result. */
typedef struct store_row {
    char key[STORE_KEY];
    const char *target, *workload;
    const char *configuration; /* KEY=VALUE, one a line */
} store_row;

/* Opens the database at `path`, NULL for one in memory, and creates its table. TV_ERR_INPUT: it is no database of
 * results, or one of a later version; TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_store_open(const char *path, const tv_diag_sink *sink, sweep_store **out);

/* NULL is allowed. */
void tv_store_close(sweep_store *store);

/* The result with this key; *found tells whether there is one. The caller frees out->stats. TV_ERR_IO, TV_ERR_MEMORY.
 */
tv_status tv_store_find(sweep_store *store, const char *key, const tv_diag_sink *sink, bool *found, sweep_result *out);

/* Adds a result unless there is one with its key. It stays when the process ends at once. TV_ERR_IO, TV_ERR_MEMORY. */
tv_status tv_store_add(sweep_store *store, const store_row *row, const sweep_result *result, const tv_diag_sink *sink);

/* ---- Files of results, one JSON object a line: what a task of a cluster writes ---- */

/* Writes a result as a line of `file`. */
tv_status tv_result_write(FILE *file, const store_row *row, const sweep_result *result);

/* Adds all results of the file at `path`; *count of them were new. TV_ERR_INPUT: a line is damaged or of another
 * version, and those before it are added; TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_store_collect(sweep_store *store, const char *path, const tv_diag_sink *sink, uint64_t *count);

#endif
