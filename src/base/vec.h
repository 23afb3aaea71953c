/* SPDX-License-Identifier: Apache-2.0 */
/* The growable typed array.
 *
 *     TV_VEC(tv_symbol) symbols = {0};
 *     TV_VEC_PUSH(&symbols, (tv_symbol){.name = name});
 *     for (size_t i = 0; i < symbols.count; i++)
 *         use(&symbols.data[i]);
 *     TV_VEC_FINI(&symbols);
 *
 * A zeroed vector is empty and valid. Elements move when the vector grows, so do not keep pointers to them across a
 * push. A failed allocation leaves the elements as they are and sets `failed`; later pushes do nothing, so that a
 * writer may check once at its end. The macros evaluate the vector argument several times. */
#ifndef TV_BASE_VEC_H
#define TV_BASE_VEC_H

#include <stdlib.h>

#include "base/base.h"

/* New arrays of `count` elements of `size` bytes, for free(); those of tv_array_calloc are zeros, which are written at
 * once. The kernel is advised to use huge pages for arrays of 2 MiB or more, which begin at one, and vectors that have
 * grown to 4 MiB or more: they cost fewer page faults. Arrays of tv_array_alloc and vectors begin at a cache line of 64
 * bytes from 1 KiB on, if there is memory. NULL when out of memory. */
void *tv_array_alloc(size_t count, size_t size);
void *tv_array_calloc(size_t count, size_t size);

#define TV_VEC(type)                                                                                                   \
    struct {                                                                                                           \
        type *data;                                                                                                    \
        size_t count, cap; /* in elements */                                                                           \
        bool failed;                                                                                                   \
    }

/* Reallocates `data`, `*cap` elements of `size` bytes of which `count` are used, to have room for `extra` more. At
 * least doubles the capacity. Returns the array; when out of memory the old one, with *failed set. */
void *tv_vec_grow(void *data, size_t size, size_t count, size_t extra, size_t *cap, bool *failed);

/* Of TV_VEC_EXPECT: returns the new array, or `data`. */
void *tv_vec_expect(void *data, size_t size, size_t count, size_t expected, size_t *cap);

/* Makes room for `n` more elements. False when out of memory, now or at an earlier call. */
#define TV_VEC_RESERVE(vec, n)                                                                                         \
    (!(vec)->failed &&                                                                                                 \
     ((vec)->cap - (vec)->count >= (n) ||                                                                              \
      ((vec)->data = tv_vec_grow((vec)->data, sizeof *(vec)->data, (vec)->count, (n), &(vec)->cap, &(vec)->failed),    \
       !(vec)->failed)))

/* Moves the elements to an array of tv_array_alloc with room for `n` in all, which are likely to be needed: growing
 * would move them several times. A hint: without memory they stay. */
#define TV_VEC_EXPECT(vec, n)                                                                                          \
    ((vec)->data = tv_vec_expect((vec)->data, sizeof *(vec)->data, (vec)->count, (n), &(vec)->cap))

/* Appends one element. False when out of memory. */
#define TV_VEC_PUSH(vec, ...)                                                                                          \
    ((bool)(TV_VEC_RESERVE(vec, 1) ? ((vec)->data[(vec)->count++] = (__VA_ARGS__), true) : false))

/* Appends `n` uninitialized elements, which may be none, and returns the first of them; NULL when out of memory. There
 * is always room for one element, so that the address exists. */
#define TV_VEC_EXTEND(vec, n)                                                                                          \
    (TV_VEC_RESERVE(vec, (n) + !(n)) ? ((vec)->count += (n), (vec)->data + (vec)->count - (n)) : NULL)

/* The last element; NULL when the vector is empty. */
#define TV_VEC_LAST(vec) ((vec)->count ? (vec)->data + (vec)->count - 1 : NULL)

/* Frees the array, not what its elements own. The vector is empty and valid afterwards. */
#define TV_VEC_FINI(vec)                                                                                               \
    do {                                                                                                               \
        free((vec)->data);                                                                                             \
        (vec)->data = NULL;                                                                                            \
        (vec)->count = (vec)->cap = 0;                                                                                 \
        (vec)->failed = false;                                                                                         \
    } while (0)

#endif
