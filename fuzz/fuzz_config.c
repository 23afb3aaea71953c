/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the input as a machine profile, and its lines as overrides. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/schema.h"
#include "mutator.h"
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

/* The keys of every target, and the values that they have. */
static const fuzz_keywords *keys(void)
{
    static fuzz_keywords words;
    static tv_config *configs[8]; /* live as long as the words */
    tv_target_info target;
    tv_config_entry entry;
    for (unsigned t = 0; !configs[t] && t + 1 < sizeof configs / sizeof configs[0] && tv_target_at(t, &target); t++) {
        if (tv_config_new(target.name, NULL, &configs[t]) != TV_OK)
            abort();
        for (unsigned i = 0; tv_config_at(configs[t], i, &entry); i++) {
            fuzz_add_keyword(&words, entry.key);
            fuzz_add_keyword(&words, strrchr(entry.key, '.') ? strrchr(entry.key, '.') + 1 : entry.key);
            fuzz_add_keyword(&words, entry.value);
        }
    }
    return &words;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_lines(data, size, max_size, &random, keys());
}
