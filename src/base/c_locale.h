/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers are read and written with a point, whatever locale the embedding program has set. */
#ifndef TV_BASE_C_LOCALE_H
#define TV_BASE_C_LOCALE_H

#include <locale.h>

typedef struct tv_c_locale {
    locale_t own, before;
} tv_c_locale;

/* For this thread, until tv_c_locale_end. */
static inline tv_c_locale tv_c_locale_begin(void)
{
    tv_c_locale l = {.own = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    l.before = l.own ? uselocale(l.own) : (locale_t)0;
    return l;
}

static inline void tv_c_locale_end(tv_c_locale l)
{
    if (!l.own)
        return;
    uselocale(l.before);
    freelocale(l.own);
}

#endif
