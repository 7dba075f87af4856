"""On the PYTHONPATH of what tests start: every Python process writes its stacks to a file at SIGUSR2."""

import faulthandler
import os
import signal

if _FILE := os.environ.get("TEST_STACKS"):
    faulthandler.register(signal.SIGUSR2, file=os.open(_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
del __file__  # else it is taken for a module of the user's, which workers need
