/* SPDX-License-Identifier: Apache-2.0 */
/* Checks at compile time that the fields of a format name every bit of the word exactly once. Included once per format,
 * so without an include guard. Parameters:
 *
 *   TV_LAYOUT         the file with the TV_FIELD and TV_RESERVED rows
 *   TV_LAYOUT_ID(f)   the enumerator of format f
 *   TV_LAYOUT_BITS    the width of the word
 *   TV_LAYOUT_FORMAT  the format to check; undefined at the end
 *
 * If the widths add up to that of the word and the union of the bits is the whole word, there is no gap or overlap. */
#define TV_LAYOUT_PASTE(format) TV_LAYOUT_ID(format)
#define TV_FORMAT(id)
#define TV_JOINED(format, name, high, low, kind, doc)

#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc) TV_RESERVED(format, name, hi, lo)
#define TV_RESERVED(format, name, hi, lo)                                                                              \
    +(TV_LAYOUT_ID(format) == TV_LAYOUT_PASTE(TV_LAYOUT_FORMAT)) * ((hi) - (lo) + 1)
_Static_assert(0
#include TV_LAYOUT
                   == TV_LAYOUT_BITS,
               "a format's fields overlap or leave bits unnamed");
#undef TV_RESERVED

#define TV_RESERVED(format, name, hi, lo)                                                                              \
    | (TV_LAYOUT_ID(format) == TV_LAYOUT_PASTE(TV_LAYOUT_FORMAT) ? (UINT64_MAX >> (63 - (hi))) & (UINT64_MAX << (lo))  \
                                                                 : 0)
_Static_assert((UINT64_C(0)
#include TV_LAYOUT
                    ) == UINT64_MAX >> (64 - TV_LAYOUT_BITS),
               "a format's fields leave bits unnamed");

#undef TV_RESERVED
#undef TV_FIELD
#undef TV_JOINED
#undef TV_FORMAT
#undef TV_LAYOUT_PASTE
#undef TV_LAYOUT_FORMAT
