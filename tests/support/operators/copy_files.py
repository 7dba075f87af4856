"""Copy files by an application: `copy_files.py INPUT OUTPUT FORMAT PARTITIONS CHECKPOINT`."""

import sys
from typing import NamedTuple

from ridgeline import Application
from ridgeline.operators import FileInput, FileOutput
from ridgeline.testing import run_local


class Row(NamedTuple):
    """A row of the files."""

    n: int
    text: str


if __name__ == "__main__":
    read, written, form, number, checkpoint = sys.argv[1:]
    app = Application("copy", window="1s")
    source = FileInput(read, Row, settle=0, window_records=100, until="end")
    output = FileOutput(written, format=form, roll_seconds=1)
    app.read("source", source, partitions=int(number)).write("out", output, partitions=int(number))
    run_local(app, checkpoint=checkpoint)
