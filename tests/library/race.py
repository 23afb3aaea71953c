#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_threads and test_pool under Clang's thread sanitizer.

    race.py ROOT BUILD MODEL PROGRAM ...

Builds the library and the tests with -fsanitize=thread into BUILD, once, and runs them: machines with several host threads, and
machines and sessions in several threads that share programs, configurations and a model; a fifth of the cases of its longest loops.
Any report of the sanitizer fails.
"""

import os
import subprocess
import sys


def run(command, **options):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **options)
    if p.returncode:
        sys.exit("%s: exit status %d\n%s" % (" ".join(command[:3]), p.returncode, p.stdout[-20000:]))
    return p.stdout


def main():
    root, build, *arguments = sys.argv[1:]
    clang = "ccache clang" if subprocess.run(["which", "ccache"], stdout=subprocess.DEVNULL, check=False).returncode == 0 else "clang"
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run(["meson", "setup", build, root, "--buildtype=plain", "-Dc_args=-O0 -gline-tables-only", "-Db_sanitize=thread", "-Db_lundef=false"],
            env=dict(os.environ, CC=clang))
    run(["ninja", "-C", build, "tests/test_threads", "tests/unit/test_pool"])
    environment = dict(os.environ, TRIVET_SAMPLE="5", TSAN_OPTIONS="halt_on_error=0 second_deadlock_stack=1")
    print(run([os.path.join(build, "tests", "unit", "test_pool")], env=environment))
    print(run([os.path.join(build, "tests", "test_threads"), *arguments], env=environment))


if __name__ == "__main__":
    main()
