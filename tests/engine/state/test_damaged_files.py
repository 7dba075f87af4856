"""A restart after damage to any file of a checkpoint: the right result, or an error with file and remedy."""

import itertools
import shutil
from collections import Counter

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.files.storage import DriverStorage, LocalStorage
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.testing import run_local
from support.damage import KINDS, cases, names_file_and_remedy
from support.engine.ledger import application
from support.manifests import last_of

pytestmark = pytest.mark.slow

WINDOWS = 13
LATER = 2


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Keyed states are in segments from 100 keys on; nothing waits for disks; copies lie in its folder."""
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 100)
    monkeypatch.setattr("os.fsync", lambda _file: None)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "copies"))


class Far(DriverStorage):
    """A checkpoint that cannot be mapped: runs are copied to the host."""

    def __init__(self, folder):
        self._near = LocalStorage(folder)
        self.uri = f"far:{folder}"
        for method in ("read", "write", "create", "names", "delete"):
            setattr(self, method, getattr(self._near, method))

    read = write = create = names = delete = None


def ledger():
    return application(snapshot_interval=4, windows_kept=3)


def collected(run, window_ids):
    return {window_id: run.collected("sink", window_id) for window_id in window_ids}


@pytest.fixture(scope="module")
def expected():
    run = run_local(ledger(), windows=WINDOWS + LATER)
    return collected(run, range(WINDOWS + LATER))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A checkpoint of 13 windows by three drivers, with deltas, snapshots and segments; and an older copy."""
    folder = tmp_path_factory.mktemp("damage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_segments, "SEGMENT_KEYS", 100)
        for windows in (5, 4, 4):
            run_local(ledger(), windows=windows, checkpoint=folder / "whole")
            if windows == 5:
                shutil.copytree(folder / "whole", folder / "earlier")
    version = last_of(folder / "whole").states["ledger/0/1"]
    assert state_files.segments_of(tuple(version))
    assert not state_files.is_compacted(version[-1])
    return folder / "whole", folder / "earlier"


def outcome(folder, name, damage, expected, tmp_path, storage=LocalStorage, least=WINDOWS - 1):
    """`right` or `told`; what is neither fails the test."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(folder, checkpoint)
    damage(checkpoint)
    try:
        run = run_local(ledger(), windows=LATER, checkpoint=storage(str(checkpoint)))
    except RidgelineError as error:
        assert names_file_and_remedy(error, name.split(" ")[0], name.split(" ")[-1]), f"{name}: {error}"  # noqa: PT017
        return "told"
    finally:
        shutil.rmtree(checkpoint)
    ids = run.window_ids
    assert ids == list(range(ids[0], ids[0] + LATER)), name
    assert ids[0] >= least, f"{name}: went on at {ids}"
    assert collected(run, ids) == {
        window_id: expected[window_id] for window_id in ids if window_id in expected
    }, name
    return "right"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "pattern",
    [
        "run.json",
        "journal/*",
        "epochs/*",
        "committed/*",
        "state/*[0-9]",
        "state/*.snapshot",
        "state/*.segment*",
    ],
)
def test_a_restart_is_right_or_told(folders, expected, tmp_path, pattern, kind):
    whole, earlier = folders
    found = Counter(
        outcome(whole, name, damage, expected, tmp_path)
        for name, damage in cases(whole, earlier, pattern, [kind])
    )
    print(f"{pattern} {kind}: {dict(found)}")


def test_there_are_enough_cases(folders):
    """There are 251: windows share the file of a journal. There were 300 with a manifest for each window."""
    assert sum(1 for _ in cases(*folders)) >= 250


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_copies_on_a_host_are_made_anew(expected, tmp_path, kind):
    checkpoint = tmp_path / "far"
    run_local(ledger(), windows=WINDOWS, checkpoint=Far(str(checkpoint)))
    [copies] = (tmp_path / "copies").iterdir()
    whole = shutil.copytree(copies, tmp_path / "whole")
    for name, damage in cases(whole, whole, kinds=[kind]):
        shutil.rmtree(copies)
        shutil.copytree(whole, copies)
        damage(copies)
        assert outcome(checkpoint, name, lambda _: None, expected, tmp_path, Far) == "right"


@pytest.mark.parametrize("journal", ["whole", "older", "gone"])
def test_folders_that_are_older_or_gone_are_told(folders, expected, tmp_path, journal):
    """In all combinations. An older copy of everything is a checkpoint as good as any."""
    whole, earlier = folders
    others = ("state", "committed", "epochs")
    for versions in itertools.product(["whole", "older", "gone"], repeat=3):
        chosen = dict(zip(("journal", *others), (journal, *versions), strict=True))

        def damage(checkpoint, chosen=chosen):
            for folder, version in chosen.items():
                if version != "whole":
                    shutil.rmtree(checkpoint / folder)
                if version == "older":
                    shutil.copytree(earlier / folder, checkpoint / folder)

        known = chosen["state"] == "whole" or chosen["committed"] == "whole"
        least = {"whole": WINDOWS, "older": 5, "gone": 0}[journal] if not known else WINDOWS
        name = f"journal/x {chosen} state/x"
        assert outcome(whole, name, damage, expected, tmp_path, least=least) in ("told", "right")
        if journal != "whole" and known:
            assert outcome(whole, name, damage, expected, tmp_path) == "told", chosen
