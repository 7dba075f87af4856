"""Reading the journal of a checkpoint folder, for tests: also while a driver writes it."""

import json
from pathlib import Path

from ridgeline.engine.driver.checkpoint import journal_record
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.files.storage import LocalStorage, Storage


def last_of(storage):
    """The last committed window of a folder, None before the first."""
    storage = storage if isinstance(storage, Storage) else LocalStorage(str(storage))
    run_id = json.loads(storage.read("run.json"))["run_id"]
    return Journal(storage, run_id, appends=False).last


def newest_file(checkpoint):
    """The path of the journal's last file."""
    return max(path for path in Path(checkpoint, "journal").iterdir() if not path.name.startswith("."))


def forget_last(checkpoint, windows=1):
    """Cut the last windows off the journal's last file. `committed/last` still knows of them."""
    path = newest_file(checkpoint)
    run_id = json.loads(Path(checkpoint, "run.json").read_text())["run_id"]
    records = list(journal_record.decode(run_id, int(path.name), path.read_bytes(), path.name))
    path.write_bytes(path.read_bytes()[: records[-1 - windows].end.offset])
