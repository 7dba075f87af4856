"""Cases and oracles lie beside the tests, under names that nothing else has; the examples themselves are on pytest's path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
