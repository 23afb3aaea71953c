/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_members.h"

/* Makes room for a bracket and its separator, or a comma, and for what comes before the next text. */
static void reserve(tv_json_writer *w)
{
    enum { SEPARATOR = 4 };
    if (TV_JSON_STAGE - w->staged < TV_JSON_MEMBERS_ROOM + SEPARATOR)
        tv_json_writer_flush(w);
}

tv_json_members tv_json_begin_members(tv_json_writer *w)
{
    assert(w->style == TV_JSON_COMPACT);
    reserve(w);
    tv_json_begin_object(w);
    return (tv_json_members){w, w->stage + w->staged};
}

void tv_json_end_members(tv_json_members *m)
{
    tv_json_writer *w = m->writer;
    assert(m->at[-1] == ',');
    w->staged = (size_t)(m->at - 1 - w->stage);
    tv_json_end_object(w);
}

/* Continues after members that functions of the writer wrote. The comma has to be in the stage, after a flush, too: the
 * next member reads it. */
static void resume(tv_json_members *m)
{
    tv_json_writer *w = m->writer;
    reserve(w);
    w->stage[w->staged++] = ',';
    m->at = w->stage + w->staged;
}

void tv_json_put_long_text(tv_json_members *m, const char *text)
{
    tv_json_writer *w = m->writer;
    w->staged = (size_t)(m->at - w->stage);
    w->after_key = true;
    tv_json_write_string(w, text);
    resume(m);
}

void tv_json_put_members(tv_json_members *m, const tv_json_value *object)
{
    tv_json_writer *w = m->writer;
    if (!tv_json_first(object))
        return;
    w->is_first = m->at[-1] == '{';
    w->staged = (size_t)(m->at - w->stage) - !w->is_first;
    tv_json_write_members(w, object, 0);
    resume(m);
}
