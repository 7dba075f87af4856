"""The simulation runs over the journal: without one there is nothing to collect."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ridgeline.engine.driver.journal") else ["*.py"]
