# SPDX-License-Identifier: Apache-2.0
"""Transcripts of a shell: lines `$ COMMAND`, each followed by what the command prints.

`$ cat NAME` of a file that does not exist yet shows an input: the text below it becomes the file. Every other command
runs in the transcript's folder, with the commands of the build first in PATH and with standard output and standard
error together. A command may only use the programs of PROGRAMS, which write nothing outside that folder: a page that says how
to install something must not install it when it is tested."""

import os
import re
import subprocess

# Figures of the computer that runs the test.
VARIABLE = re.compile(r"(?<=simulated at )[\d.]+(?= tokens/s)|(?<=simulated in )[\d.]+ [mnµ]?s|(?<=computed in )[\d.]+ [mnµ]?s|(?<=^  host  )[ \d]+ [\d.]+ +(?=this computer$)", re.M)
PROGRAMS = set("""# trivet gguf-convert ./hello build/examples/classify build/examples/digits build/examples/driver-app build/tools/digits-train cat cc cmp cut do done echo for grep head ls
mkdir objcopy pkg-config printf readelf sed sort tail tr wc""".split())
QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
PROGRAM = re.compile(r"(?:^|[|;&(`]|\bdo\b)\s*([^\s;|&()<>]+)")


class NotAllowed(Exception):
    pass


def check_programs(line):
    """Raises NotAllowed for a command with a program that is not in PROGRAMS, or a path outside the folder."""
    bare = QUOTED.sub("''", line).replace("2>&1", "")
    others = sorted(set(PROGRAM.findall(bare)) - PROGRAMS)
    others += re.findall(r">\s*(/(?!dev/null)\S*|\S*\.\.\S*)", bare)
    if others:
        raise NotAllowed("`%s`: %s: not a program that tests run; mark the block `not run`" % (line, ", ".join(others)))


def with_figures(found, shown):
    """`found` with the figures of the computer that `shown` has, if there are as many."""
    figures = VARIABLE.findall(shown)
    if len(figures) != len(VARIABLE.findall(found)):
        return found
    figures.reverse()
    return VARIABLE.sub(lambda match: figures.pop(), found)


def environment(build):
    """The variables of a shell that finds the commands and the library of a build folder."""
    folders = [os.path.join(build, name) for name in ("src", "tools/convert")]
    return dict(os.environ, PATH=os.pathsep.join(folders + [os.environ["PATH"]]), PKG_CONFIG_PATH=os.path.join(build, "meson-uninstalled"),
                LD_LIBRARY_PATH=os.path.join(build, "src"), LC_ALL="C.UTF-8")


def split(text):
    """The commands of a transcript: pairs of a command and the lines below it."""
    return [(line, shown) for line, *shown in (part.splitlines() for part in re.split(r"^\$ ", text, flags=re.M)[1:])]


def run_command(line, shown, folder, env):
    """The lines that the command prints, with the figures of the computer that `shown` has."""
    source = re.fullmatch(r"cat ([\w./-]+)", line)
    if source and not os.path.exists(os.path.join(folder, source[1])):
        with open(os.path.join(folder, source[1]), "w", encoding="utf-8") as f:
            f.write("".join(text + "\n" for text in shown))
        return shown
    check_programs(line)
    p = subprocess.run(["bash", "-c", line], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=120, check=False)
    found = "\n".join(text.rstrip() for text in p.stdout.decode("utf-8", "replace").splitlines())
    return with_figures(found, "\n".join(shown)).split("\n") if found else []


def run(text, folder, env):
    """The transcript as it is when its commands run in `folder`."""
    lines = []
    for line, shown in split(text):
        lines += ["$ " + line] + run_command(line, shown, folder, env)
    return "".join(text + "\n" for text in lines)
