"""Runs a command and says what it took: measure.py OUT COMMAND…

Writes JSON into OUT: seconds of the clock, seconds of the processor, and the most memory (MiB) that the command and everything
it began held at one moment. Ends as the command ended."""

import json
import os
import resource
import subprocess
import sys
import threading
import time


def tree(root):
    """Every process below root, itself included."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parents[int(name)] = int(stat.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def held(pids):
    """What they hold together, in bytes; what they share is counted once for each."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as statm:
                total += int(statm.read().split()[1]) * resource.getpagesize()
        except OSError:
            pass
    return total


out, command = sys.argv[1], sys.argv[2:]
began = time.monotonic()
process = subprocess.Popen(command)
most, done = 0, threading.Event()


def watch():
    global most
    while not done.wait(0.1):
        most = max(most, held(tree(process.pid)))


watcher = threading.Thread(target=watch)
watcher.start()
code = process.wait()
wall = time.monotonic() - began
done.set()
watcher.join()
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(out, "w") as file:
    # A command of a moment ends before anybody looked; the kernel knows the largest single process.
    most = max(most, usage.ru_maxrss * 1024)
    json.dump({"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "memory": most / 2**20}, file)
sys.exit(code)
