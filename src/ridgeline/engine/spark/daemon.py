"""The worker daemon (`spark.python.daemon.module`): preloaded imports, a frozen heap, orderly ends.

Python's generational collection looks at new objects every 10,000, not every 700, since a window's tuples are
objects too. That saves a tenth of an operator's time per tuple.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from random import Random, SystemRandom
from typing import Any
from zipimport import zipimporter

import pyspark.daemon
import pyspark.worker

import ridgeline.api.public  # what operators ask for
import ridgeline.engine.slot.task  # noqa: F401
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.process.garbage import keep_freed_memory
from ridgeline.engine.process.log_channel import open_worker_channel
from ridgeline.engine.process.worker_output import mark_output

# Randomness after a fork: each worker seeds again what was seeded from the system's entropy.
#
# A forked process has a copy of every generator of its parent. Without this, all workers would draw the
# same numbers. Python seeds the functions of `random` itself. A generator that got a seed of the author's
# keeps it.

_SEEDS_OF_LIBRARIES = {
    "numpy.random": lambda numpy_random: numpy_random.seed(),
    "torch": lambda torch: torch.seed(),
    "polars": lambda polars: polars.set_random_seed(int.from_bytes(os.urandom(8), "little") >> 1),
}
"""How the generator of a whole library, if it is loaded, gets a seed of the system's."""
_LEAST_ENTROPY = 1 << 96
"""numpy draws 128 bits without a seed. A smaller seed is the author's."""

_unseeded: weakref.WeakSet[Random] = weakref.WeakSet()
_generators: list[Any] = []


@contextlib.contextmanager
def watched_seeds() -> Iterator[None]:
    """Note which `random.Random` made in this block gets no seed of the author's: it does not show later."""
    original = Random.seed

    def seed(self: Random, a: Any = None, version: int = 2) -> None:
        original(self, a, version)
        if a is None:
            _unseeded.add(self)
        else:
            _unseeded.discard(self)

    Random.seed = seed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Random.seed = original  # type: ignore[method-assign]


def seed_after_fork() -> None:
    """Seed again, in each child, the generators that exist now and the libraries that are loaded.

    Call it once, before `gc.freeze`: what is frozen is not found.
    """
    _generators.extend(one for one in gc.get_objects() if _is_unseeded(one))
    os.register_at_fork(after_in_child=_seed)


def _is_unseeded(value: object) -> bool:
    kind: Any = type(value)
    if kind is Random or (issubclass(kind, Random) and not issubclass(kind, SystemRandom)):
        return value in _unseeded
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is None or not issubclass(kind, numpy_random.BitGenerator | numpy_random.RandomState):
        return False
    bits: Any = getattr(value, "_bit_generator", value)
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    return isinstance(entropy, int) and entropy >= _LEAST_ENTROPY


def _seed() -> None:
    for name, seed in _SEEDS_OF_LIBRARIES.items():
        if name in sys.modules:
            with contextlib.suppress(Exception):  # half loaded: it has no generator yet
                seed(sys.modules[name])
    for generator in _generators:
        if hasattr(generator, "seed"):
            generator.seed()
        else:
            generator.state = type(generator)().state


_ENDING_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_PARENT_DEATH_SIGNAL = 1


class OwnSignals:
    """Replaces `signal` in pyspark.daemon: SIGTERM ends neither the daemon nor a worker.

    What stops a service sends it to all processes at once (systemd, `timeout`). The driver lets the window
    that runs come to its end, which needs the workers. Daemon and workers end when their standard input and
    their connection are closed. A process that a worker forks ends by it as usual.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(signal, name)

    @staticmethod
    def signal(number: int, handler: Any) -> Any:
        """As `signal.signal`."""
        return signal.signal(number, _stay if number == signal.SIGTERM else handler)


def _stay(_number: int, _frame: object) -> None:
    """A handler, since what is ignored stays ignored in programs that an operator starts."""


class OrderlyKills:
    """Replaces `os` in pyspark.daemon: a worker has 5 s to tear containers down before it is killed."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    @staticmethod
    def kill(pid: int, number: int) -> None:
        """As `os.kill`. Raises OSError."""
        if number != signal.SIGKILL:
            os.kill(pid, number)
            return
        os.kill(pid, signal.SIGHUP)
        if os.fork() == 0:  # the daemon has no threads, so that it can fork
            try:
                for _ in range(int(_ENDING_SECONDS / _LOOK_SECONDS)):
                    select.select([], [], [], _LOOK_SECONDS)
                    os.kill(pid, 0)
                os.kill(pid, signal.SIGKILL)
            finally:
                os._exit(0)


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """End a worker's loop silently when Spark closes its connection; stock pyspark prints a traceback."""

    def serve(*arguments: object) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            os._exit(1)

    return serve


def no_terminal(*_arguments: object, **_named: object) -> None:
    """Refuse `breakpoint()` in a worker: a debugger would read from nowhere. Raises RidgelineError."""
    raise RidgelineError(
        "`breakpoint()` was reached in a worker of Spark, which has no terminal; run the application in your "
        "own process to debug it, `run_local(app)` of `ridgeline.testing` with `python -m pdb` or an IDE, or "
        "set PYTHONBREAKPOINT to a debugger that listens (0: to pass over it)"
    )


def preload(names: str) -> None:
    """Import what workers need before they are forked: these modules, separated by commas, and pandas.

    pyarrow imports pandas, if there is one, at its first conversion to numpy: 0.3 s in each new process.
    """
    with watched_seeds():
        for name in filter(None, names.split(",")):
            importlib.import_module(name)
        with contextlib.suppress(Exception):  # there is none, or a broken one: nobody has asked for it
            importlib.import_module("pandas")


def forget_archives() -> None:
    """Let no worker read the directory of `pyspark.zip` again, once for each of its packages: 0.2 s.

    It is what `importlib.invalidate_caches` does, which pyspark calls in every new process. The directories
    that were read stay known, by the archive's name.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def end_with_daemon() -> Callable[[], None]:
    """A fork hook that ends a worker in order when its daemon dies, however that dies; on Linux only.

    Spark starts another daemon then, and the task again in it. A worker that went on would hold a core that
    Spark gives away again, and would outlive Spark.
    """
    daemon = os.getpid()
    try:
        prctl: Any = ctypes.CDLL(None).prctl
    except (AttributeError, OSError):
        return lambda: None

    def follow() -> None:
        if os.getppid() == daemon:  # else it is what a worker has forked
            prctl(_PARENT_DEATH_SIGNAL, signal.SIGHUP, 0, 0, 0)
            if os.getppid() != daemon:
                os._exit(1)

    return follow


def end_all() -> None:
    """Wait for the workers, which are ending; kill those that do not, as in native code."""
    for _ in range(int(_ENDING_SECONDS / _LOOK_SECONDS)):
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        select.select([], [], [], _LOOK_SECONDS)
    os.kill(0, signal.SIGKILL)  # the group is the daemon's own


def main() -> None:
    """Serve forks until Spark closes the pipe."""
    if os.environ.get("PYTHONSAFEPATH") == "ridgeline":  # by us (`session.py`): not for what operators start
        del os.environ["PYTHONSAFEPATH"]
    # partitions run in parallel: threads of polars would wait for each other
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    keep_freed_memory()
    mark_output()
    open_worker_channel()
    preload(os.environ.get("RIDGELINE_PRELOAD", ""))
    forget_archives()
    if not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = no_terminal
    daemon: Any = pyspark.daemon
    daemon.signal, daemon.os = OwnSignals(), OrderlyKills()
    daemon.worker = quietly(daemon.worker)
    own = os.getpid()
    os.register_at_fork(after_in_child=end_with_daemon())
    os.register_at_fork(after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
    gc.collect()
    seed_after_fork()
    # After all imports: the collector does not touch frozen objects, so that workers share their memory.
    gc.freeze()
    gc.set_threshold(10_000)
    try:
        pyspark.daemon.manager()
    except SystemExit:
        if os.getpid() == own and os.getpgrp() == own:
            end_all()
        raise


if __name__ == "__main__":
    main()
