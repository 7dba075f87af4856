"""Reading the manifests of a checkpoint folder, for tests."""

import json

from ridgeline.engine.driver import manifest as manifests
from ridgeline.engine.driver.manifest import Manifest
from ridgeline.engine.state.storage import LocalStorage, Storage


def manifest_of(storage, window_id):
    """The manifest of a window; of the last one for -1."""
    storage = storage if isinstance(storage, Storage) else LocalStorage(str(storage))
    run_id = json.loads(storage.read("run.json"))["run"]["run_id"]
    if window_id < 0:
        window_id = max(map(manifests.window_of, storage.names(manifests.FOLDER)))
    name = manifests.file_name(window_id)
    return Manifest.decode(storage.read(name), run_id, window_id, name)
