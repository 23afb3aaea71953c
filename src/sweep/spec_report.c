/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a specification, until ERRORS_MAX of them. */
#include "sweep/spec.h"

enum { ERRORS_MAX = 20 };

void tv_spec_reject(sweep_spec *spec, unsigned line, const char *hint, const char *format, ...)
{
    tv_source_loc loc = {.file = spec->path, .line = line, .index = -1};
    va_list args;
    if (spec->status == TV_OK)
        spec->status = TV_ERR_INPUT;
    if (spec->errors++ >= ERRORS_MAX)
        return;
    va_start(args, format);
    tv_vreport(spec->sink, TV_ERROR, TV_CODE(SWEEP_FORM), &loc, hint, format, args);
    va_end(args);
}
