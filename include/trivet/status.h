/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the library's version. Safe from any thread. */
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
    TV_FAULT,      /* the simulated machine faulted: a result, see tv_machine_fault */
    TV_ERR_INPUT,  /* invalid file, instruction word, parameter or argument */
    TV_ERR_IO,     /* the host could not read or write */
    TV_ERR_MEMORY, /* the host is out of memory */
} tv_status;

/* Short English name of `status`: "ok", "fault", "invalid input", … Static string; "unknown status" for other values.
 */
TV_API const char *tv_status_text(tv_status status);

/* Version of the library that is running, for example "0.1.0". Static string. Compare it with TV_VERSION_MAJOR and
 * TV_VERSION_MINOR, the version of the headers. */
TV_API const char *tv_version(void);

#ifdef __cplusplus
}
#endif
#endif
