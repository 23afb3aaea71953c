/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_streams.h"

static const char *const streams[] = {"gemm", "gemv"}; /* as TV_WINDOW_STREAM_PUSH counts them */

static tv_status reject(cli *c, const char *text)
{
    cli_error(c, CLI_E_VALUE, "for example --stream gemv=0x1000:2048, for 2,048 bytes from 0x1000 on",
              "--stream takes NAME=ADDR:BYTES, not '%s'", text);
    return TV_ERR_INPUT;
}

static tv_status write_register(cli *c, tv_machine *machine, uint64_t offset, uint64_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    return tv_machine_write(machine, "mmio", offset, bytes, sizeof bytes, &c->sink);
}

/* ADDR:BYTES after the name. */
static bool parse_range(const char *text, uint64_t *addr, uint64_t *bytes)
{
    char head[32];
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : sizeof head;
    if (length >= sizeof head)
        return false;
    memcpy(head, text, length);
    head[length] = '\0';
    return cli_parse_number(head, addr) && cli_parse_number(colon + 1, bytes);
}

static tv_status append(cli *c, tv_machine *machine, const char *text)
{
    const char *equals = strchr(text, '=');
    uint64_t addr, bytes, host = 0;
    unsigned stream = 0;
    tv_space space;
    while (equals && stream < CLI_COUNTOF(streams) &&
           (strlen(streams[stream]) != (size_t)(equals - text) ||
            strncmp(streams[stream], text, strlen(streams[stream])) != 0))
        stream++;
    if (!equals || stream == CLI_COUNTOF(streams) || !parse_range(equals + 1, &addr, &bytes))
        return reject(c, text);
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        host = strcmp(space.name, "host") == 0 ? space.size : host;
    if (addr > host || bytes > host - addr) {
        cli_error(c, CLI_E_VALUE, "make host.bytes larger with -D", "the weights of --stream %s run past host memory",
                  text);
        return TV_ERR_INPUT;
    }
    const uint64_t registers[][2] = {{TV_WINDOW_STREAM_ADDR_LO, addr & 0xFFFFFFFF},
                                     {TV_WINDOW_STREAM_ADDR_HI, addr >> 32},
                                     {TV_WINDOW_STREAM_BYTES_LO, bytes & 0xFFFFFFFF},
                                     {TV_WINDOW_STREAM_BYTES_HI, bytes >> 32},
                                     {TV_WINDOW_STREAM_PUSH, stream}};
    tv_status status = TV_OK;
    for (unsigned i = 0; i < CLI_COUNTOF(registers) && status == TV_OK; i++)
        status = write_register(c, machine, registers[i][0], registers[i][1]);
    return status;
}

tv_status run_streams_append(cli *c, tv_machine *machine)
{
    const char *text = cli_value_at(c, "stream", 0);
    if (text && strcmp(tv_config_target(tv_machine_config(machine)), "pccx") != 0) {
        cli_error(c, CLI_E_VALUE, "omit --stream", "%s has no weight streams",
                  tv_config_target(tv_machine_config(machine)));
        return TV_ERR_INPUT;
    }
    tv_status status = TV_OK;
    for (unsigned k = 0; status == TV_OK && (text = cli_value_at(c, "stream", k)); k++)
        status = append(c, machine, text);
    return status;
}
