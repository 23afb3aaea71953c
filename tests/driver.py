#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/driver/run-driver.sh with drivers of this test: folders with any name, sources without a main function.

    driver.py ROOT BUILD
"""

import os
import subprocess
import sys

from suite import Suite, parse_arguments

# The hardware functions of a board, which the script leaves out.
BOARD = "int uca_hal_init(void)\n{\n    return -1;\n}\n"
# Issues cvo.exp l2[0x10], l2[0], len=8.
DRIVER = """#include <stdint.h>
int uca_hal_init(void);
void uca_hal_deinit(void);
void uca_hal_issue_instr(uint64_t instr);
int uca_hal_wait_idle(uint32_t timeout_us);
int run_exp(void)
{
    if (uca_hal_init() != 0)
        return 9;
    uca_hal_issue_instr(UINT64_C(0x4000000004000200));
    int result = uca_hal_wait_idle(1000);
    uca_hal_deinit();
    return result;
}
"""
MAIN = "int run_exp(void);\nint main(int argc, char **argv)\n{\n    return run_exp() == 0 ? argc + (argv[1][1] == ' ') : 99;\n}\n"


class Driver(Suite):
    def __init__(self, options):
        super().__init__(options=options)
        self.script = os.path.join(os.path.abspath(options.root), "examples", "driver", "run-driver.sh")
        self.environment = {**os.environ, "TRIVET_BUILD": os.path.abspath(options.build)}

    def run_script(self, *arguments):
        p = subprocess.run(["sh", self.script, *arguments], cwd=self.folder, env=self.environment,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        return p.returncode, p.stderr

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def a_driver_runs_on_the_model(t):
    for folder in ("driver", "a driver"):
        t.write(folder + "/hal_board.c", BOARD)
        t.write(folder + "/src/driver file.c", DRIVER)
        code, err = t.run_script(folder)
        t.expect(folder + " without a main function", code == 0 and "no main function" in err, err)
        t.write(folder + "/main.c", MAIN)
        code, err = t.run_script(folder, "a b", "c")
        t.expect(folder + " with arguments", (code, err) == (4, ""), (code, err))


def mistakes_are_errors(t):
    t.write("board/hal.c", BOARD)
    for arguments, says in (((), "usage:"), (("none",), "none is no folder"), (("board",), "no .c files besides")):
        code, err = t.run_script(*arguments)
        t.expect(" ".join(arguments), code == 2 and says in err, err)


def main():
    options = parse_arguments(__doc__, "root", "build")
    suite = Driver(options)
    suite.run_tests([a_driver_runs_on_the_model, mistakes_are_errors], suite)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
