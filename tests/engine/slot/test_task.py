import os
import struct
import time

from ridgeline.engine.slot.task import worker_process


def test_a_process_that_was_not_forked_is_no_worker():
    assert worker_process() == (0.0, 0.0)


def test_a_forked_process_knows_its_fork_and_the_begin_of_the_one_that_forked_it():
    before = time.time()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, struct.pack("dd", *worker_process()))
        os._exit(0)
    os.waitpid(child, 0)
    worker, daemon = struct.unpack("dd", os.read(reading, 16))
    os.close(reading)
    os.close(writing)
    assert daemon < before <= worker <= time.time()
