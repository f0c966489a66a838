"""Runs a command that must succeed: timed.py COMMAND... prints its milliseconds from start to exit and its most resident KiB.

A process of its own because what the kernel calls a child's most resident memory includes that of the process it was
forked from, until it became the command: it must be a small one.
"""

import os
import sys
import time

null = os.open(os.devnull, os.O_RDWR)
keep_stderr = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=keep_stderr)
_, status, usage = os.wait4(child, 0)
ms = (time.perf_counter() - start) * 1e3
print(ms, usage.ru_maxrss)
sys.exit(1 if status else 0)
