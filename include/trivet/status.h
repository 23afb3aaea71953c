/* SPDX-License-Identifier: Apache-2.0 */
/* What a Trivet function returns, and the version of the library.
 *
 * A function that can fail returns tv_status and delivers its result through an out-pointer, which it leaves
 * untouched on failure. What went wrong, for a person, goes to a tv_diag_sink (diag.h). */
#ifndef TRIVET_STATUS_H
#define TRIVET_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TV_API __attribute__((visibility("default")))
#define TV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TV_API
#define TV_PRINTF(fmt, args)
#endif

#define TV_VERSION_MAJOR 0
#define TV_VERSION_MINOR 1
#define TV_VERSION_PATCH 0

typedef enum tv_status {
    TV_OK = 0,
    TV_FAULT,      /* the simulated machine stopped on a fault: a result, see tv_machine_fault */
    TV_ERR_INPUT,  /* a file, a word, a parameter or an argument is wrong */
    TV_ERR_IO,     /* the host could not read or write */
    TV_ERR_MEMORY, /* the host has no memory left */
} tv_status;

/* Short English name of a status: "ok", "fault", "wrong input", … Static storage. */
TV_API const char *tv_status_text(tv_status status);

/* "0.1.0", the version of the library that is running. Static storage. A program compares it with
 * TV_VERSION_MAJOR and TV_VERSION_MINOR of the headers it was compiled with. */
TV_API const char *tv_version(void);

#ifdef __cplusplus
}
#endif
#endif
