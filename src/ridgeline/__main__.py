"""`python -m ridgeline` is the `ridgeline` command.

As a file it is a program for `spark-submit`, whose programs end in `.py`.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]  # a script's own folder: its modules are not meant to be found by their bare names
    from ridgeline.cli.main import main

    main()
