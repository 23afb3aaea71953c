/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the input as a machine profile, and its lines as overrides. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/schema.h"
#include "trivet/trivet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_config *config;
    tv_config_entry entry;
    if (tv_config_new("pccx", NULL, &config) != TV_OK)
        abort();
    tv_config_parse(config, "fuzz.ini", NULL, data, size, NULL);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        tv_config_set(config, entry.key, text, NULL);
    tv_config_set(config, text, "1", NULL);
    free(text);
    tv_config_free(config);
    return 0;
}
