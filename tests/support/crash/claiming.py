"""Claims names in a store as a driver does: `python -m support.crash.claiming STORE`.

Each line of its standard input is a name to claim. It answers `# got`, or `# refused` and why. The line after
that ends the application, and it answers `# ended`.
"""

import sys

from ridgeline.api.errors import NameTakenError
from ridgeline.engine.spark.hadoop import HadoopStorage
from ridgeline.engine.spark.session import start_context
from ridgeline.service.store.presence import Presence


def say(*words):
    print("#", *words, flush=True)


def main(store):
    context = start_context("claiming", "local[1]", {}, streaming=False, local_checkpoint=False, least=1)
    say("ready")
    for line in sys.stdin:
        name = line.strip()
        presence = Presence(store, name, "app", "local", print)
        try:
            presence.with_java(f"{store}/{name}", lambda folder: HadoopStorage(folder, context))
            say("got")
        except NameTakenError as error:
            say("refused", error)
        sys.stdin.readline()
        presence.end("it was stopped", failed=False)
        say("ended")
    context.stop()


if __name__ == "__main__":
    main(sys.argv[1])
