/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, findings and source lines. */
#include "machine/fault.h"

#include <inttypes.h>

void tv_fault_record_fini(tv_fault_record *record)
{
    tv_buf_fini(&record->text);
    tv_buf_fini(&record->message);
}

void tv_fault_raise(tv_fault_record *record, const tv_program *program, uint64_t index, const char *text,
                    const tv_code *code, const char *message)
{
    tv_source_loc loc = tv_program_source_loc(program, index);
    record->text.len = record->message.len = 0;
    tv_buf_str(&record->text, text);
    tv_buf_str(&record->message, message);
    record->fault = (tv_fault){.code = code->code,
                               .name = code->name,
                               .index = index,
                               .disassembly = tv_buf_cstr(&record->text),
                               .file = loc.file,
                               .line = loc.line,
                               .message = tv_buf_cstr(&record->message)};
    record->raised = true;
}

void tv_fault_raise_word(tv_fault_record *record, const tv_isa *isa, const tv_program *program, uint64_t index,
                         uint64_t word, int row, const tv_code *code, const char *message)
{
    tv_buf text = {0};
    if (row >= 0)
        tv_isa_print(isa, &isa->insns[row], word, &text);
    else
        tv_buf_printf(&text, "%s 0x%0*" PRIx64, isa->word_bits == 64 ? ".word64" : ".word", (int)isa->word_bits / 4,
                      word);
    tv_fault_raise(record, program, index, tv_buf_cstr(&text), code, message);
    record->fault.address = index * (isa->word_bits / 8);
    tv_buf_fini(&text);
}

void tv_event_locate(tv_event *event, const tv_program *program, uint64_t index)
{
    tv_source_line line;
    if (tv_program_line(program, index, &line)) {
        event->file = line.file;
        event->line = line.line;
    }
    tv_symbol label;
    if (!event->layer && tv_program_label(program, index, &label))
        event->layer = label.name;
}

void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...)
{
    assert(code < TV_FINDING_CODES_MAX);
    *(severity == TV_ERROR ? &findings->counts->errors : &findings->counts->warnings) += 1;
    if (findings->said[code]++ >= TV_FINDINGS_MAX)
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

void tv_findings_end(tv_findings *findings)
{
    for (unsigned i = 0; i < TV_FINDING_CODES_MAX; i++)
        if (findings->said[i] > TV_FINDINGS_MAX)
            tv_report(findings->sink, TV_NOTE, &findings->codes[i], &TV_NO_SOURCE_LOC, NULL,
                      "and %" PRIu64 " more like these", findings->said[i] - TV_FINDINGS_MAX);
}
