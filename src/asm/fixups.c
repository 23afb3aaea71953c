/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of the expressions that were deferred until all symbols are known. */
#include "asm/job.h"
#include "trivet/dtype.h"

static void apply_fixup(tv_asm_job *job, const tv_fixup *fixup, tv_value v)
{
    uint64_t bits = 0;
    if (fixup->kind == TV_FIX_STREAM) {
        tv_emit_encode_stream(job, &fixup->loc, fixup->field, v, &job->streams[fixup->type].data[fixup->offset]);
        return;
    }
    if (fixup->kind == TV_FIX_FIELD) {
        uint8_t *p = job->text.data + fixup->offset;
        bits = job->word_bytes == 8 ? tv_load_le64(p) : tv_load_le32(p);
        if (tv_emit_encode_field(job, &fixup->loc, &bits, fixup->field, v))
            tv_store_le(p, bits, job->word_bytes);
        return;
    }
    if (!tv_emit_encode_data(job, &fixup->loc, fixup->type, v, &bits))
        return;
    uint8_t *bytes = fixup->chunk == TV_FIX_IN_TEXT ? job->text.data : job->chunks.data[fixup->chunk].bytes.data;
    tv_store_le(bytes + fixup->offset, bits, tv_dtype_bits((tv_dtype)fixup->type) / 8);
}

void tv_fixups_apply(tv_asm_job *job)
{
    const tv_fixup *fixups = job->fixups.data;
    for (size_t i = 0; i < job->fixups.count && !job->stop; i++) {
        tv_value v;
        if (tv_expr_eval(job, &fixups[i].loc, fixups[i].node, &v))
            apply_fixup(job, &fixups[i], v);
    }
    /* Unused constants are evaluated too, for their errors and for the symbol table. */
    for (tv_asm_symbol *s = job->first_symbol; s && !job->stop; s = s->next)
        if (s->node && s->state == TV_SYM_EQU) {
            tv_value v;
            if (tv_expr_eval(job, &s->loc, s->node, &v)) {
                s->value = v;
                s->node = NULL;
            }
        }
}
