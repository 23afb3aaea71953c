/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/tokens.h"

/* The end of one or more digits from `p` on; NULL if there is none. */
static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *start = p;
    while (p < end && is_digit(*p))
        p++;
    return p > start ? p : NULL;
}

bool cmdq_take_number(cursor *s, field_value *v)
{
    const uint8_t *p = s->at, *end = s->at + SLACK, *whole;
    p += *p == '-';
    whole = p;
    p = digits_end(p, end);
    if (!p || (*whole == '0' && p > whole + 1))
        return false;
    if (p < end && *p == '.' && !(p = digits_end(p + 1, end)))
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }
    if (!p || p >= end || !is_delimiter(*p))
        return false;
    cmdq_set_number(v, (tv_sv){(const char *)s->at, (size_t)(p - s->at)});
    s->at = p;
    return true;
}

bool cmdq_take_ids(cursor *s, uint32_t *count)
{
    *count = 0;
    if (!skip_space(s))
        return false;
    if (*s->at == ']') {
        s->at++;
        return true;
    }
    for (;;) {
        int64_t value;
        if (!skip_space(s) || !take_digits(s, &value) || value >= UINT32_MAX)
            return false;
        (void)TV_VEC_PUSH(&s->r->ids, (uint32_t)value);
        ++*count;
        if (!skip_space(s))
            return false;
        if (*s->at++ == ']')
            return true;
        if (s->at[-1] != ',')
            return false;
    }
}
