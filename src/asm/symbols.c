/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol table: a hash table with chaining, and a list in order of first appearance. */
#include <stdlib.h>

#include "asm/job.h"

static bool grow_buckets(tv_asm_job *job)
{
    size_t count = job->bucket_count ? job->bucket_count * 2 : 256;
    tv_asm_symbol **buckets = calloc(count, sizeof(tv_asm_symbol *));
    if (!buckets) {
        job->out_of_memory = true;
        return false;
    }
    for (tv_asm_symbol *s = job->first_symbol; s; s = s->next) {
        s->next_in_bucket = buckets[s->hash & (count - 1)];
        buckets[s->hash & (count - 1)] = s;
    }
    free(job->buckets);
    job->buckets = buckets;
    job->bucket_count = count;
    return true;
}

tv_asm_symbol *tv_symbol_find(tv_asm_job *job, tv_sv name)
{
    if (!job->bucket_count)
        return NULL;
    uint64_t hash = tv_sv_hash(name);
    for (tv_asm_symbol *s = job->buckets[hash & (job->bucket_count - 1)]; s; s = s->next_in_bucket)
        if (s->hash == hash && tv_sv_eq(s->name, name))
            return s;
    return NULL;
}

tv_asm_symbol *tv_symbol_intern(tv_asm_job *job, tv_sv name)
{
    tv_asm_symbol *s = tv_symbol_find(job, name);
    if (s)
        return s;
    if (job->symbol_count >= job->bucket_count && !grow_buckets(job))
        return NULL;
    s = tv_asm_alloc(job, sizeof *s);
    char *copy = s ? tv_arena_str(&job->arena, name) : NULL;
    if (!copy) {
        job->out_of_memory = true;
        return NULL;
    }
    s->name = (tv_sv){copy, name.len};
    s->hash = tv_sv_hash(name);
    s->next_in_bucket = job->buckets[s->hash & (job->bucket_count - 1)];
    job->buckets[s->hash & (job->bucket_count - 1)] = s;
    if (job->last_symbol)
        job->last_symbol->next = s;
    else
        job->first_symbol = s;
    job->last_symbol = s;
    job->symbol_count++;
    return s;
}

bool tv_symbol_define(tv_asm_job *job, tv_sv name, unsigned column, int state, tv_symbol_kind kind, tv_expr value)
{
    tv_asm_symbol *s = tv_symbol_intern(job, name);
    if (!s)
        return false;
    bool allowed = s->state == TV_SYM_UNDEFINED || (s->state == TV_SYM_SET && state == TV_SYM_SET);
    if (!allowed) {
        char hint[160] = "use .set for a constant that changes";
        if (s->loc.file)
            snprintf(hint, sizeof hint, "first defined at %.100s:%u; use .set for a constant that changes", s->loc.file,
                     s->loc.line);
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_REDEFINED), hint, "'%.*s' is already defined",
                        TV_SV_ARG(name));
        return false;
    }
    s->state = (unsigned)state == TV_SYM_LABEL ? TV_SYM_LABEL : (unsigned)state == TV_SYM_EQU ? TV_SYM_EQU : TV_SYM_SET;
    s->kind = kind;
    s->value = value.value;
    s->node = value.known ? NULL : value.node;
    s->loc = tv_asm_loc(job, column, (unsigned)name.len);
    return true;
}
