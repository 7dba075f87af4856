"""Processes that are slots without Spark, forked from a server that has imported all they need."""

import base64
import multiprocessing
import os
import pickle

from ridgeline.api.clock import SystemClock
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.slot.task import join

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "pandas", "ridgeline.engine.slot.task", "ridgeline.testing"])


def slot(text, attempt):
    """What `slot_task.serve` does in a Spark task."""
    task = pickle.loads(base64.b64decode(text))
    me = Peer(task.slot, task.first_attempt + attempt)
    network = Sockets(me, task.listen, SystemClock())
    try:
        network.connect(Peer(STRAM, task.epoch), task.stram)
        join(network, Peer(STRAM, task.epoch)).serve()
    finally:
        network.close()


def no_slot(_text, _attempt):
    """A process that ends before it is a slot."""
    os._exit(7)
