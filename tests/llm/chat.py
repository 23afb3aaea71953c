#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command `trivet llm --chat`: one turn, conversations from standard input and in a terminal, rejected options.

    chat.py TRIVET"""

import json
import os
import pty
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import random_model  # noqa: E402
from suite import Suite, parse_arguments  # noqa: E402

OPTIONS = parse_arguments(__doc__, "trivet")
SUITE = Suite(OPTIONS.trivet, OPTIONS)
expect, equal = SUITE.expect, SUITE.equal
MODEL, MUTE = os.path.join(SUITE.folder, "chat.gguf"), os.path.join(SUITE.folder, "mute.gguf")
CHATML = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
GREEDY = ["--chat", "--temperature", "0", "-n", "6"]


def write_models():
    options = {"kind": "F32", "seed": 1, "layers": 1, "vocabulary": 512, "pre": None, "conditioned": False}
    for path, template in ((MODEL, CHATML), (MUTE, "{{ message['content'] }}")):
        model = random_model.FAMILIES["qwen2"](options)
        model.w.meta("tokenizer.chat_template", template)
        model.w.save(path)


def run(*args, status=0, text=""):
    done = subprocess.run([SUITE.trivet, "llm", *args], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    done.stdout, done.stderr = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    expect(" ".join(args), done.returncode == status, f"exit {done.returncode}: {done.stderr}")
    return done


def target(*args, text=""):
    return json.loads(run(*args, "--json", text=text).stdout)["result"]["targets"][0]


def letters(text):
    """Without bytes that are no text, which JSON writes as question marks."""
    return re.sub(r"[^\n -~]|\?", "", text)


def a_message_has_one_answer():
    one = target(MODEL, *GREEDY, "-p", "Hello")
    again = target(MODEL, *GREEDY, text="Hello\n")
    equal("-p and a line are the same", one["exchanges"], again["exchanges"])
    equal("one turn", [t["message"] for t in one["exchanges"]], ["Hello"])
    equal("the answer alone is printed", letters(run(MODEL, *GREEDY, "-q", "-p", "Hello").stdout), letters(one["exchanges"][0]["answer"]))
    expect("there is no text of a prompt", "text" not in one, one)
    longer = target(MODEL, *GREEDY, "-p", "Hello", "--system", "Be brief.")
    # <|im_start|>, "system\n", "Be brief.", <|im_end|>, "\n": at least a token for each
    expect("--system comes before the message", longer["prompt_tokens"] >= one["prompt_tokens"] + 5, (one, longer))
    for machine in ("pccx", "opennpu", "cmdq"):
        equal(f"{machine}: tokens of the prompt", target(MODEL, *GREEDY, "-t", machine, "-p", "Hello")["prompt_tokens"], one["prompt_tokens"])


def turns_keep_the_cache():
    """Two turns run each token once: the prompt tokens of the second are those of its own text."""
    first = target(MODEL, *GREEDY, text="Hello\n")
    both = target(MODEL, *GREEDY, text="Hello\n\r\n \nWhy?\r\n")
    equal("empty lines are skipped", [t["message"] for t in both["exchanges"]], ["Hello", "Why?"])
    equal("the first answer stays", both["exchanges"][0], first["exchanges"][0])
    expect("the second turn is short", first["prompt_tokens"] < both["prompt_tokens"] < 2 * first["prompt_tokens"] + 8, both)
    equal("nothing to answer", target(MODEL, *GREEDY, text="")["exchanges"], [])
    lines = run(MODEL, *GREEDY, "-q", text="Hello\nWhy?\n").stdout
    equal("a line for each answer", letters(lines), letters("".join(t["answer"] + "\n" for t in both["exchanges"])))


def conversations_end():
    done = run(MODEL, *GREEDY, "--context", "40", text="Hello\nWhy?\nWhat?\nWho?\n", status=2)
    expect("a turn beyond the context", "TV-L004" in done.stderr, done.stderr)
    done = run(MODEL, "--chat", "--temperature", "0", "--context", "32", text="Hello\nWhy?\n")
    expect("a full context ends the conversation", "TV-L042" in done.stderr and "conversation ends" in done.stderr, done.stderr)
    expect("a zero byte", "zero byte" in run(MODEL, *GREEDY, text="a\0b\n", status=2).stderr)
    expect("a long line", "too long" in run(MODEL, *GREEDY, text="a" * (1 << 20) + "a\n", status=2).stderr)


def a_terminal_asks():
    leader, follower = pty.openpty()
    child = subprocess.Popen([SUITE.trivet, "llm", MODEL, *GREEDY], stdin=follower, stdout=follower, stderr=follower, close_fds=True)
    os.close(follower)
    os.write(leader, b"Hello\nWhy?\n\x04")
    seen = b""
    try:
        while True:
            data = os.read(leader, 4096)
            if not data:
                break
            seen += data
    except OSError:  # the terminal is closed
        pass
    os.close(leader)
    equal("the conversation ends with its input", child.wait(), 0)
    expect("each message is asked for", seen.count(b"> ") >= 3, seen)
    expect("the summary follows", b"cycles/token" in seen, seen)


def options_are_checked():
    names = re.search("known templates are (.*)", run(MUTE, "--chat", "-p", "a", status=2).stderr)
    expect("an unknown template lists the known ones", names)
    known = names.group(1).split(", ") if names else []
    script = subprocess.run([SUITE.trivet, "completion", "bash"], stdout=subprocess.PIPE, check=True).stdout.decode()
    expect("completion has the templates", " ".join(known) in script, known)
    manual = open(os.path.join(HERE, "..", "..", "docs", "llm.md"), encoding="utf-8").read()
    equal("the manual has the templates", [name for name in known if f"`{name}`" not in manual], [])
    equal("a template by name", len(target(MUTE, *GREEDY, "--chat-template", "gemma", "-p", "Hello")["exchanges"]), 1)
    for args, words in ((["--chat-template", "none"], "TV-L025"), (["--prompt-tokens", "9"], "is an option of --timing-only"), (["--timing-only", "-t", "cmdq"], "mutually exclusive"),
                        (["--verify"], "mutually exclusive"), (["--eval", MODEL], "mutually exclusive"), (["-t", "all"], "one target")):
        expect(f"--chat {args}", words in run(MODEL, "--chat", *args, status=2).stderr)
    for option in ("--system", "--chat-template"):
        expect(f"{option} alone", "add --chat" in run(MODEL, option, "gemma", status=2).stderr)


write_models()
SUITE.run_tests((a_message_has_one_answer, turns_keep_the_cache, conversations_end, a_terminal_asks, options_are_checked))
sys.exit(SUITE.finish())
