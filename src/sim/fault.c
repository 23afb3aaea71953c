/* SPDX-License-Identifier: Apache-2.0 */
/* Recording faults. */
#include "sim/fault.h"

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
    tv_buf_str(&record->text, text ? text : "");
    tv_buf_str(&record->message, message ? message : "");
    record->fault = (tv_fault){.code = code->code,
                               .name = code->name,
                               .index = index,
                               .disassembly = tv_buf_cstr(&record->text),
                               .file = loc.file,
                               .line = loc.line,
                               .message = tv_buf_cstr(&record->message)};
    record->raised = true;
    record->out_of_memory = !text || !message || record->text.failed || record->message.failed;
}

tv_status tv_fault_status(const tv_fault_record *record) { return record->out_of_memory ? TV_ERR_MEMORY : TV_FAULT; }

void tv_fault_raise_word(tv_fault_record *record, const tv_isa *isa, const tv_program *program, uint64_t index,
                         uint64_t word, int row, const tv_code *code, const char *message)
{
    char storage[TV_CODEC_TEXT];
    tv_buf text = TV_BUF_FIXED(storage);
    if (row >= 0 && !record->without_text)
        tv_isa_print(isa, &isa->insns[row], word, &text);
    else if (!record->without_text)
        tv_buf_printf(&text, "%s 0x%0*" PRIx64, isa->word_bits == 64 ? ".word64" : ".word", (int)isa->word_bits / 4,
                      word);
    tv_fault_raise(record, program, index, tv_buf_cstr_or_null(&text), code, message);
    record->fault.address = index * (isa->word_bits / 8);
    tv_buf_fini(&text);
}
