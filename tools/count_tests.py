# SPDX-License-Identifier: Apache-2.0
"""Summarizes meson's test logs: prints the slowest tests, the failed ones, and `N passed, M failed` at the end."""
import json
import sys

rows = [json.loads(line) for path in sys.argv[1:] for line in open(path, encoding="utf-8")]
failed = [r for r in rows if r["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]
for row in sorted(rows, key=lambda r: -r["duration"])[:5]:
    print("  %6.1f s  %s" % (row["duration"], row["name"]))
for row in failed:
    print("failed: %s (%s)" % (row["name"], row["result"]))
print("%d passed, %d failed" % (len(rows) - len(failed), len(failed)))
sys.exit(1 if failed or not rows else 0)
