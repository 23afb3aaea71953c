/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema of program files that are not words. */
#ifndef TV_CLI_JSON_SCHEMA_H
#define TV_CLI_JSON_SCHEMA_H

#include "cli/cli.h"

/* A new reference. */
json_t *json_schema_make(const tv_codec *codec);

#endif
