/* SPDX-License-Identifier: Apache-2.0 */
/* The C locale for one thread: numbers are parsed and printed with a decimal point in any locale of the embedding
 * program. */
#ifndef TV_BASE_C_LOCALE_H
#define TV_BASE_C_LOCALE_H

#include <locale.h>

typedef struct tv_c_locale {
    locale_t own, previous;
} tv_c_locale;

/* Sets the C locale for this thread until tv_c_locale_end. */
static inline tv_c_locale tv_c_locale_begin(void)
{
    tv_c_locale l = {.own = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    l.previous = l.own ? uselocale(l.own) : (locale_t)0;
    return l;
}

static inline void tv_c_locale_end(tv_c_locale l)
{
    if (!l.own)
        return;
    uselocale(l.previous);
    freelocale(l.own);
}

#endif
