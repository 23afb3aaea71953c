/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage: what programs of a machine have exercised, as hits of the bins of a model.
 *
 * A model consists of groups of bins: instructions, corners of their fields, combinations of fields, numbers of
 * elements that do not fill a word, dependences between engines, stalls, faults, classes of the values that are read
 * and written. It belongs to a target and does not depend on a configuration. A bin that nothing can hit has the reason
 * why. */
#ifndef TRIVET_COVER_H
#define TRIVET_COVER_H

#include <stdio.h>

#include "trivet/config.h"
#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_cover tv_cover;

/* The strings belong to the coverage. */
typedef struct tv_cover_bin {
    const char *group, *name; /* "field", "GEMV dest_reg=max" */
    uint64_t hits, goal;      /* the bin is open while it has fewer hits than its goal */
    const char *reason;       /* why it cannot be hit, or NULL */
} tv_cover_bin;

/* Bins of a group or of all. */
typedef struct tv_cover_counts {
    uint64_t bins, covered;
    uint64_t open;        /* not covered, without a reason */
    uint64_t unreachable; /* not covered, with a reason */
} tv_cover_counts;

/* Creates the model of `target` ("pccx") without hits. The caller frees it with tv_cover_free. TV_ERR_INPUT: unknown
 * target; TV_ERR_MEMORY. */
TV_API tv_status tv_cover_new(const char *target, const tv_diag_sink *sink, tv_cover **out);

/* Frees `cover`, which may be NULL and is attached to no machine. */
TV_API void tv_cover_free(tv_cover *cover);

/* Counts in `cover` what `machine`, which is of the same target, executes from now on, until tv_cover_detach. Takes the
 * machine's commit and trace sinks: do not set others meanwhile. One machine at a time is attached. A machine with
 * TV_MODE_TIMING hits no bins of values and dependences, one with TV_MODE_FUNCTIONAL none of stalls. TV_ERR_INPUT:
 * another target, or a machine is attached; TV_ERR_MEMORY. */
TV_API tv_status tv_cover_attach(tv_cover *cover, tv_machine *machine, const tv_diag_sink *sink);

/* Ends counting, after the events of instructions in flight. `cover` may be attached to no machine. */
TV_API void tv_cover_detach(tv_cover *cover);

/* Bin `i` of `cover`, in the order of its groups. Returns 0 past the last. */
TV_API int tv_cover_bin_at(const tv_cover *cover, unsigned i, tv_cover_bin *out);

/* Counts the bins of `group` of `cover`; `group` may be NULL: of all. */
TV_API tv_cover_counts tv_cover_count(const tv_cover *cover, const char *group);

/* The target of `cover`. */
TV_API const char *tv_cover_target(const tv_cover *cover);

/* Instructions and queue entries that `cover` has counted, over all programs and merged files. */
TV_API uint64_t tv_cover_instructions(const tv_cover *cover);

/* Writes the bins of `cover` to `file` as JSON Lines: a header, then an object with group, bin, hits, goal and perhaps
 * reason for each. Write errors are those of `file`. */
TV_API void tv_cover_write(const tv_cover *cover, FILE *file);

/* Adds the hits of the file at `path`, which tv_cover_write has written, to `cover`. Nothing is added if it is damaged.
 * TV_ERR_INPUT: no coverage of this model, or damaged; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_cover_merge(tv_cover *cover, const char *path, const tv_diag_sink *sink);

/* The same with the contents of a file, `size` bytes of `data`, for `cover`; `name` is used in messages. TV_ERR_INPUT,
 * TV_ERR_MEMORY as tv_cover_merge. */
TV_API tv_status tv_cover_merge_bytes(tv_cover *cover, const char *name, const void *data, size_t size,
                                      const tv_diag_sink *sink);

/* The target of the file at `path`, which tv_cover_write has written, goes to `target`. TV_ERR_INPUT: no coverage;
 * TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_cover_target_of(const char *path, const tv_diag_sink *sink, char target[16]);

/* Programs for the bins that are open. */
typedef struct tv_cover_close_options {
    size_t size; /* sizeof(tv_cover_close_options) */
    uint64_t seed;
    uint64_t instructions; /* of the main program, at most */
    /* Receives each program: its name, "main" or that of the fault that ends it, and its assembly source. Another
     * status than TV_OK ends the closure, with that status. */
    tv_status (*program)(void *user, const char *name, const char *source);
    void *user; /* may be NULL */
} tv_cover_close_options;

/* Makes programs for machines of `config` that hit bins of `cover` that are open, and counts them: a main program
 * without faults, and a short one for each fault. The programs depend on the open bins, `config` and `options` alone.
 * TV_ERR_INPUT: `config` is of another target or one without instruction words, or the size of `options` is not set;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_cover_close(tv_cover *cover, const tv_config *config, const tv_cover_close_options *options,
                                const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
