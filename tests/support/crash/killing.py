"""Kills of drivers, slots and servers while an application runs, at random moments."""

import os
import signal
import time
from collections import Counter

from support.crash.processes import committed, slots_of
from support.waiting import wait_until


def kill_in_turn(begin, checkpoint, chance, kills, ways):
    """Begin an application and kill so many times, a few windows apart; it may end before.

    `ways`: what is killed in turn: "driver", "slot", or a name with a function that does it. Returns the
    driver that runs at last, and how often each was killed.
    """
    driver = begin()
    wait_until(lambda: committed(checkpoint) >= 0, "the first window")
    killed = Counter()
    for kill in range(kills):
        before = committed(checkpoint)
        wait_until(
            lambda driver=driver, before=before: (
                committed(checkpoint) > before + 2 or driver.exit_code is not None
            ),
            "windows",
        )
        if driver.exit_code is not None:
            break
        moment = time.monotonic() + chance.uniform(0.0, 0.3)
        wait_until(lambda moment=moment: time.monotonic() > moment, "the moment", every=0.001)
        what = list(ways)[kill % len(ways)]
        killed[what] += 1
        if ways[what] is not None:
            ways[what]()
        elif what == "slot" and (slots := slots_of(driver)):
            os.kill(chance.choice(slots), signal.SIGKILL)
        else:
            driver.kill()
            driver = begin()
    print(f"killed: {killed}")
    return driver, killed
