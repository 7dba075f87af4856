"""A service of many windows in a process of its own, where no other test has objects.

`python -m support.service.counted_objects 2000 10000` feeds so many windows. Then it prints how many objects
the collector knew after each of the numbers, the service's address and its token, and waits for its input.
"""

import gc
import json
import os
import subprocess
import sys
from contextlib import contextmanager

from support.paths import ROOT
from support.service.large import fed
from support.service.watched import Client, payments, serving


@contextmanager
def counted_objects(*windows):
    """How many objects there were after each of these numbers of windows, and a client of the service."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, windows)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        objects, url, token = json.loads(process.stdout.readline())
        yield objects, Client(url, token)
        process.stdin.close()
        assert process.wait() == 0


def main():
    windows, objects = [int(number) for number in sys.argv[1:]], []

    def count(watch, committed):
        if committed in windows:
            assert watch.info()["stats"]["windowsCommitted"] == committed
            gc.collect()
            objects.append(len(gc.get_objects()))

    watch, plan, _, _ = fed(payments(), windows[-1], count)
    with serving(watch, plan) as client:
        print(json.dumps([objects, f"http://{client.host}:{client.port}", client.token]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
