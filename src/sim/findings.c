/* SPDX-License-Identifier: Apache-2.0 */
/* Reporting the findings of a static check. */
#include "sim/findings.h"

#include <inttypes.h>

#include "base/buf.h"

void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...)
{
    assert(code < TV_FINDING_CODES_MAX);
    if (severity != TV_NOTE)
        *(severity == TV_ERROR ? &findings->counts->errors : &findings->counts->warnings) += 1;
    if (findings->found[code]++ >= TV_FINDINGS_MAX)
        return;
    tv_source_loc loc = tv_program_source_loc(findings->program, index);
    tv_buf text = {0};
    va_list args;
    va_start(args, format);
    tv_buf_vprintf(&text, format, args);
    va_end(args);
    tv_report(findings->sink, severity, &findings->codes[code], &loc, hint, "%s", tv_buf_cstr(&text));
    tv_buf_fini(&text);
}

void tv_findings_report_omitted(tv_findings *findings)
{
    for (unsigned i = 0; i < TV_FINDING_CODES_MAX; i++)
        if (findings->found[i] > TV_FINDINGS_MAX)
            tv_report(findings->sink, TV_NOTE, &findings->codes[i], &TV_NO_SOURCE_LOC, NULL,
                      "and %" PRIu64 " more like these", findings->found[i] - TV_FINDINGS_MAX);
}
