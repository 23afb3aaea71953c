/* SPDX-License-Identifier: Apache-2.0 */
/* The debugger's commands and the Debug Adapter Protocol on a host whose memory or files fail at one call.
 *
 *     test_debug_failures SOURCE_TREE [WORD] */
#include "scenario.h"

#include "trivet/debug.h"

/* ---- The debugger ---- */

static tv_status debug(scene *s, const char *source, const char *profile, const char *const *lines)
{
    setup u = {.source = source, .profile = profile};
    tv_debug *debugger = NULL;
    tv_debug_options options = {.size = sizeof options, .snapshot_interval = 3, .snapshot_memory = 1 << 20};
    tv_status status = init_setup(s, &u);
    const tv_program *programs[] = {u.program};
    if (status == TV_OK)
        status = tv_debug_new(u.config, programs, 1, &options, &s->sink, &debugger);
    for (; status == TV_OK && *lines; lines++) {
        tv_debug_answer answer;
        tv_status of_line = report_quiet(s, tv_debug_command(debugger, *lines, &s->sink, &answer));
        add_text(s, answer.text);
        add_text(s, answer.json);
        tv_debug_answer_free(&answer);
        if (of_line == TV_ERR_MEMORY || of_line == TV_ERR_IO)
            status = of_line;
        char *words = status == TV_OK ? tv_debug_complete(debugger, *lines) : NULL;
        if (status == TV_OK && !words)
            status = report_quiet(s, TV_ERR_MEMORY);
        add_text(s, words);
        free(words);
    }
    tv_debug_free(debugger);
    fini_setup(&u);
    return status;
}

static tv_status debug_pccx(scene *s)
{
    static const char *const lines[] = {"help",
                                        "break 5",
                                        "tbreak 3",
                                        "watch l2:0:8 write",
                                        "info break",
                                        "continue",
                                        "where",
                                        "list",
                                        "disassemble 0 3",
                                        "explain",
                                        "why",
                                        "info engines",
                                        "info registers",
                                        "print l2:0:8:bf16",
                                        "x l2:0:8",
                                        "set l2:0 = 1",
                                        "step 2",
                                        "back 2",
                                        "reverse-continue",
                                        "finish",
                                        "nosuch",
                                        "print 1 +",
                                        "delete 1",
                                        "continue",
                                        "restart",
                                        NULL};
    return debug(s, "examples/pccx/softmax.s", "configs/pccx-kv260.ini", lines);
}

static tv_status debug_cmdq(scene *s)
{
    static const char *const lines[] = {"break on hazard", "step 2",   "info queue", "info hazards", "print spm:0:8:s8",
                                        "explain 2",       "continue", "why",        "back",         NULL};
    return debug(s, "examples/cmdq/kv.json", "configs/cmdq-mobile.ini", lines);
}

/* ---- The Debug Adapter Protocol ---- */

/* What the client sends, in chunks. */
typedef struct client {
    char bytes[1 << 14];
    size_t size, at;
} client;

static void add_message(client *c, const char *command, const char *arguments)
{
    char body[1024];
    int n = snprintf(body, sizeof body, "{\"seq\":1,\"type\":\"request\",\"command\":\"%s\",\"arguments\":{%s}}",
                     command, arguments);
    c->size += (size_t)snprintf(c->bytes + c->size, sizeof c->bytes - c->size, "Content-Length: %d\r\n\r\n%s", n, body);
}

/* The times in messages differ between runs, so what is sent is not compared. */
static void ignore_sent(void *user, const void *bytes, size_t size) { (void)user, (void)bytes, (void)size; }

static size_t receive(void *user, void *bytes, size_t size, int wait)
{
    client *c = user;
    size_t n = c->size - c->at;
    if (n == 0)
        return wait ? TV_DAP_CLOSED : 0;
    n = n < size ? n : size;
    n = n > 300 ? 300 : n;
    memcpy(bytes, c->bytes + c->at, n);
    c->at += n;
    return n;
}

static tv_status serve(scene *s, const char *source, const char *memory, const char *const requests[][2])
{
    static client c;
    char launch[700];
    c.size = c.at = 0;
    snprintf(launch, sizeof launch, "\"program\":\"%s\",\"stopOnEntry\":true,\"parameters\":{\"%s\":\"4Mi\"}",
             in_tree(source), memory);
    add_message(&c, "initialize", "\"linesStartAt1\":true");
    add_message(&c, "launch", launch);
    for (unsigned i = 0; requests[i][0]; i++)
        add_message(&c, requests[i][0], requests[i][1]);
    add_message(&c, "disconnect", "");
    return tv_dap_serve(&(tv_dap_io){ignore_sent, receive, &c}, &s->sink);
}

static tv_status serve_pccx(scene *s)
{
    static const char *const requests[][2] = {
        {"setBreakpoints", "\"source\":{\"path\":\"softmax.s\"},\"breakpoints\":[{\"line\":30,\"condition\":\"e_max > "
                           "0\"},{\"line\":34},{\"line\":36,\"hitCondition\":\"2\"}]"},
        {"setFunctionBreakpoints", "\"breakpoints\":[{\"name\":\"nowhere\"}]"},
        {"setInstructionBreakpoints",
         "\"breakpoints\":[{\"instructionReference\":\"0x18\"},{\"instructionReference\":\"x\"}]"},
        {"dataBreakpointInfo", "\"name\":\"l2:0:8\""},
        {"setDataBreakpoints", "\"breakpoints\":[{\"dataId\":\"l2:4:8\",\"accessType\":\"write\"}]"},
        {"setExceptionBreakpoints", "\"filters\":[\"fault\"]"},
        {"configurationDone", ""},
        {"threads", ""},
        {"stackTrace", "\"threadId\":1"},
        {"scopes", "\"frameId\":0"},
        {"variables", "\"variablesReference\":1"},
        {"variables", "\"variablesReference\":2"},
        {"variables", "\"variablesReference\":3"},
        {"next", "\"threadId\":1"},
        {"stepIn", "\"threadId\":1"},
        {"stepBack", "\"threadId\":1"},
        {"readMemory", "\"memoryReference\":\"l2:0\",\"count\":64"},
        {"writeMemory", "\"memoryReference\":\"l2:0\",\"data\":\"AAAAAA==\""},
        {"disassemble", "\"memoryReference\":\"0x0\",\"instructionCount\":4,\"instructionOffset\":-1"},
        {"evaluate", "\"expression\":\"e_max + 1\",\"context\":\"watch\""},
        {"evaluate", "\"expression\":\"info engines\",\"context\":\"repl\""},
        {"completions", "\"text\":\"inf\",\"column\":4"},
        {"setVariable", "\"variablesReference\":2,\"name\":\"l2\",\"value\":\"1\""},
        {"continue", "\"threadId\":1"},
        {"exceptionInfo", "\"threadId\":1"},
        {"source", "\"source\":{\"path\":\"softmax.s\"}"},
        {"reverseContinue", "\"threadId\":1"},
        {"stepOut", "\"threadId\":1"},
        {"restart", ""},
        {"pause", "\"threadId\":1"},
        {NULL, NULL},
    };
    return serve(s, "examples/pccx/softmax.s", "host.bytes", requests);
}

static tv_status serve_cmdq(scene *s)
{
    static const char *const requests[][2] = {
        {"configurationDone", ""},
        {"stackTrace", "\"threadId\":1"},
        {"variables", "\"variablesReference\":1"},
        {"next", "\"threadId\":1"},
        {"variables", "\"variablesReference\":4"},
        {"source", "\"sourceReference\":1"},
        {"continue", "\"threadId\":1"},
        {"stepBack", "\"threadId\":1"},
        {"nosuch", ""},
        {NULL, NULL},
    };
    return serve(s, "examples/cmdq/kv.json", "dram.bytes", requests);
}

static const scenario scenarios[] = {
    {"debug_pccx", debug_pccx, TV_OK, true},
    {"debug_cmdq", debug_cmdq, TV_OK, true},
    {"serve_pccx", serve_pccx, TV_OK, true},
    {"serve_cmdq", serve_cmdq, TV_OK, true},
};

int main(int argc, char **argv) { return run_scenarios(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
