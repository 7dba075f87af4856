"""Kill the driver around a change of its plan: after that the change is wholly there, or wholly not."""

import threading
import time

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.cli.load import load_application
from ridgeline.cli.remote.client import Client
from ridgeline.testing import run_local
from support.crash.processes import committed, options
from support.crash.rows import Reader, multisets
from support.paths import SUPPORT
from support.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "steady.py"
LIVES = 9
TOKEN = "secret-of-the-test"
ADDED = (
    {"do": "add-operator", "name": "audit", "spec": {"class": "steady.Audit"}},
    {"do": "add-sink", "stream": "numbers", "sink": "audit.input"},
)


class Application:
    """One driver after the other on one checkpoint."""

    def __init__(self, start, tmp_path):
        self.port = free_port()
        self.client = Client(f"http://127.0.0.1:{self.port}", TOKEN)
        self.output, self.checkpoint = tmp_path / "output", tmp_path / "checkpoint"
        self._start = start

    def begin(self):
        """Another driver, which has committed a window."""
        places = options(output=self.output, checkpoint=self.checkpoint, master="local[2]")
        driver = self._start(APPLICATION, *places, *options(port=self.port, token=TOKEN), "--quiet")
        assert driver.until_windows(self.checkpoint, 1), driver.text
        return driver

    def plan(self):
        """How many partitions each operator has, and what its properties are."""
        operators = self.client.get("/logicalPlan")["operators"]
        return {one["name"]: one for one in operators}


def change(chance, partitions):
    """Edits that all belong together, and the partitions that they lead to."""
    sums = chance.choice([one for one in (1, 2, 3) if one != partitions.get("sums")])
    same = chance.choice([one for one in (1, 2, 3) if one != partitions.get("same")])
    edits = [
        {"do": "repartition", "operator": "sums", "partitions": sums},
        {"do": "set-property", "operator": "numbers", "property": "name", "value": f"{sums} and {same}"},
        {"do": "repartition", "operator": "same", "partitions": same},
    ]
    after = {**partitions, "sums": sums, "same": same}
    if "audit" in partitions:
        edits.append({"do": "remove-operator", "name": "audit"})
        del after["audit"]
    else:
        edits += ADDED
        after["audit"] = 1
    return edits, after


def test_a_change_is_wholly_there_after_a_kill_or_wholly_not(start, wait_until, tmp_path, chance):
    application = Application(start, tmp_path)
    reader = Reader(application.output, application.checkpoint)
    reader.start()
    partitions = {"numbers": 1, "same": 2, "sums": 2, "store": 1}
    there = 0
    driver = application.begin()
    for life in range(LIVES):
        edits, after = change(chance, partitions)
        answers = []

        def ask(edits=edits, answers=answers):
            try:
                answers.append(application.client.post("/changes", edits=edits, wait=30))
            except RidgelineError as error:  # the driver was killed before it answered
                answers.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        if life % 2:  # about when it is committed
            wait_until(lambda answers=answers: answers, "the answer", every=0.001)
        else:
            time.sleep(chance.uniform(0.0, 0.4))
        driver.kill()
        asking.join()
        driver = application.begin()
        found = count(application.plan())
        assert found in (partitions, after), f"life {life}: {found}"
        if isinstance(answers[0], dict):
            assert answers[0]["state"] in {"APPLIED", "QUEUED"}, answers
            assert found == after or answers[0]["state"] == "QUEUED"
        there += found == after
        partitions = found
    application.client.post("/shutdown")
    assert driver.wait() == 0, driver.text
    reader.finish()
    print(f"{there} of {LIVES} changes were there after the kill")
    windows = committed(application.checkpoint) + 1
    whole = tmp_path / "whole"
    run_local(load_application(str(APPLICATION), ["--output", str(whole)]), windows=windows)
    assert multisets(application.output) == multisets(whole)


def count(plan):
    """The number of partitions of each operator."""
    return {name: one["attributes"]["partitions"] for name, one in plan.items()}
