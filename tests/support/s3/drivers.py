"""Steps on S3 by Spark's connector: `python -m support.s3.drivers ENDPOINT race=100 run=15`."""

import contextlib
import json
import sys
import threading

from ridgeline.api.errors import CheckpointError, FencedError, NameTakenError
from ridgeline.api.support.files import use_s3
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.spark.hadoop import HadoopStorage
from ridgeline.engine.spark.s3 import s3_settings
from ridgeline.engine.spark.session import start_context
from ridgeline.service.registry import Entry
from ridgeline.service.store.folder import EntryFolder
from ridgeline.service.store.presence import Presence
from ridgeline.testing.services import SeaweedFS
from support.jars import class_path


def settings(endpoint):
    """As a user gives them: once, to Spark."""
    return {
        "spark.driver.extraClassPath": class_path("s3"),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": SeaweedFS.KEY,
        "spark.hadoop.fs.s3a.secret.key": SeaweedFS.SECRET,
    }


def race(context, uri, rounds):
    """Two drivers open the same fresh folder at the same moment and commit the same window.

    Returns how each round ended.
    """
    outcomes = []
    for number in range(rounds):
        got, epochs = [], []
        begin, both = threading.Barrier(2), threading.Barrier(2)

        def drive(number=number, got=got, epochs=epochs, begin=begin, both=both):
            storage = HadoopStorage(f"{uri}/{number}", context)
            begin.wait()
            try:
                checkpoint = Checkpoint(storage, "app")
            except FencedError:  # the other one has come between
                got.append("fenced")
                both.abort()
                return
            except CheckpointError as error:
                got.append(str(error))
                both.abort()
                return
            epochs.append(checkpoint.epoch)
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait()
            try:
                checkpoint.commit(Manifest(0, checkpoint.epoch, 0, {}, [], {}, ended=False))
                got.append("committed")
            except FencedError:
                got.append("fenced")
            except CheckpointError as error:
                got.append(str(error))
            finally:
                checkpoint.close()

        drivers = [threading.Thread(target=drive) for _ in range(2)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        outcomes.append([sorted(got), len(set(epochs)) == len(epochs)])
    return outcomes


def create(context, uri, rounds):
    """Two drivers create the same file at the same moment.

    Returns how many got the answer that they did, by round.
    """
    counts = []
    storages = [HadoopStorage(uri, context) for _ in range(2)]
    for number in range(rounds):
        got, begin = [], threading.Barrier(2)

        def one(storage, number=number, got=got, begin=begin):
            begin.wait()
            got.append(storage.create(f"journal/{number}", storage.uri.encode() + str(id(storage)).encode()))

        threads = [threading.Thread(target=one, args=(storage,)) for storage in storages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts.append(got.count(True))
    return counts


def names(context, uri, rounds):
    """Two drivers take the name of a dead application in a store, one after the other; which got it."""
    use_s3(s3_settings(context))
    starts = []
    for number in range(rounds):
        got, made = [], [Presence(uri, f"app-{number}", "app", "local", print) for _ in range(2)]
        EntryFolder(uri).write(Entry("", f"app-{number}", start=7, state="failed", host="elsewhere"))
        for presence in made:
            with contextlib.suppress(NameTakenError):
                presence.with_spark("x")
                got.append(EntryFolder(uri).read(f"app-{number}").entry.start)
        for presence in made:
            presence.end("it was stopped", failed=False)
        starts.append(got)
    return starts


class Removing(HadoopStorage):
    """A file that stands in the way is removed by another driver before this one can look at it."""

    def read(self, name):
        self.delete([name])
        return super().read(name)


def removed(context, uri, rounds):
    """The store refuses to create a file that is gone once it is looked at; what `create` said."""
    storage = Removing(uri, context)
    answers = []
    for number in range(rounds):
        name = f"journal/{number}"
        storage.write(name, b"of another driver")
        answers.append(storage.create(name, b"own"))
    return answers


def run(context, uri, windows):
    """An application of five containers that all change, run twice on the same checkpoint.

    One window is in flight, so that each has a commit of its own. How far it counts is a property that the
    first run is given, and the checkpoint keeps. Returns what it collected.
    """
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.plan import plan_application
    from support.engine.applications import sum_application
    from support.engine.on_spark import run_on_spark

    collected = []
    for given in ({"numbers.count": "100000"}, {}):
        app = sum_application(count=1)

        def make(values, _kept, _edits, app=app, given=given):
            return plan_application(app, {**values, **given}, {"windows_in_flight": "1"})

        ran = run_on_spark(app, context, uri, windows=windows, planner=Planner(make, given))
        collected += [number.value for number in ran.collected("store")]
    return collected


def regions(context, uri, windows):
    """An application of two regions, stopped after so many windows and continued: what came at each sink."""
    from support.service.regions import to_two_sinks

    collected = {"fast": [], "slow": []}
    for limit in (windows, None):
        handle = to_two_sinks(100, "200ms").start(
            context=context, checkpoint=uri, windows=limit, port=None, quiet=True
        )
        handle.wait(300)
        for sink, values in collected.items():
            values += [number.value for number in handle.collected(sink)]
    return collected


STEPS = {
    "race": race,
    "create": create,
    "removed": removed,
    "names": names,
    "run": run,
    "regions": regions,
}


def main(endpoint, *steps):
    asked = {name: int(count) for name, count in (step.split("=") for step in steps)}

    def say(name, result):
        print("RESULT", name, json.dumps(result), flush=True)

    needs = {"streaming": False, "local_checkpoint": False, "least": 2}
    context = start_context("s3", "local[2]", settings(endpoint), **needs)
    try:
        for name, count in asked.items():
            say(name, STEPS[name](context, f"s3a://{name}/checkpoint", count))
    finally:
        context.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
