/* SPDX-License-Identifier: Apache-2.0 */
/* Reporting the findings of a static check. */
#include "sim/findings.h"

#include <inttypes.h>

void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...)
{
    assert(code < TV_FINDING_CODES_MAX);
    if (findings->out_of_memory)
        return;
    if (severity != TV_NOTE)
        *(severity == TV_ERROR ? &findings->counts->errors : &findings->counts->warnings) += 1;
    if (findings->found[code]++ >= TV_FINDINGS_MAX)
        return;
    tv_source_loc loc = tv_program_source_loc(findings->program, index);
    if (findings->locate)
        findings->locate(findings, code, &loc);
    va_list args;
    va_start(args, format);
    tv_vreport(findings->sink, severity, &findings->codes[code], &loc, hint, format, args);
    va_end(args);
}

const char *tv_findings_text(tv_findings *findings, tv_buf *text)
{
    const char *contents = tv_buf_cstr(text);
    findings->out_of_memory |= text->failed;
    return contents;
}

tv_status tv_findings_finish(tv_findings *findings)
{
    if (findings->out_of_memory)
        return tv_fail_memory(findings->sink);
    for (unsigned i = 0; i < TV_FINDING_CODES_MAX; i++)
        if (findings->found[i] > TV_FINDINGS_MAX)
            tv_report(findings->sink, TV_NOTE, &findings->codes[i], &TV_NO_SOURCE_LOC, NULL,
                      "and %" PRIu64 " more like these", findings->found[i] - TV_FINDINGS_MAX);
    return TV_OK;
}
