"""Ridgeline: streaming applications in Python on Spark that know where their time goes."""

import logging

from ridgeline.api import *  # noqa: F403
from ridgeline.api import __all__ as __all__

logging.getLogger("ridgeline").addHandler(logging.NullHandler())
