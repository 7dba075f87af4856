"""Memory that is freed and needed again, as the kernel counts it: pages that a process had to get."""

import os
import platform
import subprocess
import sys

import pytest

ROUNDS = 50
PROGRAM = f"""
import os, resource, sys, threading
import numpy as np
from ridgeline.engine.process.garbage import keep_freed_memory

done = keep_freed_memory() if sys.argv[1] == "keep" else None

def work():
    # as steps over a batch of 250,000 rows: a few arrays at a time, which all go
    for _ in range({ROUNDS}):
        values = np.ones(250_000)
        mask = values > 0
        chosen = values[mask]
        del values, mask, chosen

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    if sys.argv[2] == "thread":
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[2] == "forked":
    ours, theirs = os.pipe()
    if os.fork():
        os.wait()
        print(done, os.read(ours, 100).decode())
    else:
        os.write(theirs, str(faults()).encode())
        os._exit(0)
else:
    print(done, faults())
"""
CLEAN = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "GLIBC" not in name}


def run(*arguments: str, **environment: str) -> tuple[str, int]:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=CLEAN | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    done, faults = found.stdout.split()
    return done, int(faults)


glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other settings")


@glibc
@pytest.mark.parametrize("where", ["here", "thread", "forked"])
def test_arrays_of_a_batch_take_the_memory_of_the_one_before(where):
    done, faults = run("keep", where)
    assert done == "True"
    # 4 MB a round are 1,000 pages, of which the first round needs all
    assert faults < 3_000
    assert run("usual", where)[1] > 3 * faults


@glibc
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072"),
    ],
)
def test_thresholds_of_the_environment_are_left_alone(name, value):
    assert run("keep", "here", **{name: value})[0] == "False"
