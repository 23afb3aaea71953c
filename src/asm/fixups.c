/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in what had to wait for symbols. */
#include "asm/job.h"
#include "trivet/dtype.h"

static void apply(tv_asm_job *job, const tv_fixup *fixup, tv_value v)
{
    uint64_t bits = 0;
    if (fixup->kind == TV_FIX_STREAM) {
        tv_emit_put_stream(job, &fixup->loc, fixup->field, v,
                           (tv_descriptor *)(void *)(job->streams[fixup->type].data + fixup->offset));
        return;
    }
    if (fixup->kind == TV_FIX_FIELD) {
        uint8_t *p = job->text.data + fixup->offset;
        bits = job->word_bytes == 8 ? tv_load_le64(p) : tv_load_le32(p);
        if (tv_emit_put_field(job, &fixup->loc, &bits, fixup->field, v))
            tv_store_le(p, bits, job->word_bytes);
        return;
    }
    if (!tv_emit_data_bits(job, &fixup->loc, fixup->type, v, &bits))
        return;
    uint8_t *home =
        fixup->chunk == UINT32_MAX ? job->text.data : ((tv_chunk *)(void *)job->chunks.data)[fixup->chunk].bytes.data;
    tv_store_le(home + fixup->offset, bits, tv_dtype_bits((tv_dtype)fixup->type) / 8);
}

void tv_fixups_apply(tv_asm_job *job)
{
    const tv_fixup *fixups = (const tv_fixup *)(const void *)job->fixups.data;
    for (size_t i = 0; i < job->fixups.len / sizeof *fixups && !job->stop; i++) {
        tv_value v;
        if (tv_expr_eval(job, &fixups[i].loc, fixups[i].node, &v))
            apply(job, &fixups[i], v);
    }
    /* A constant that nothing uses must still make sense. */
    for (tv_asm_symbol *s = job->first_symbol; s && !job->stop; s = s->next)
        if (s->node && s->state == TV_SYM_EQU) {
            tv_value v;
            if (tv_expr_eval(job, &s->loc, s->node, &v)) {
                s->value = v;
                s->node = NULL;
            }
        }
}
