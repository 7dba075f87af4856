"""The payload of a driver on a cluster: packed in one process, unpacked by another one in another folder."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from ridgeline.cli.cluster import kept
from ridgeline.cli.cluster.driver import PAYLOAD
from ridgeline.service.store.entry import StoreEntry
from ridgeline.service.store.folder import EntryFolder

ID = "0123456789abcdef0123456789abcdef"
APPLICATION = """
from ridgeline import Application
from pieces import rates

def application(word: str = "none"):
    return Application(f"shop-{word}-{rates.rate()}", window="1s")
"""
RATES = """
import importlib.resources

def rate():
    return importlib.resources.files("pieces").joinpath("rate.txt").read_text()
"""
PACK = """
import os, sys
from dataclasses import replace
from pathlib import Path
from ridgeline.cli.cluster import payload
from ridgeline.cli.load import load_application
from ridgeline.cli.settings import RunSettings
from ridgeline.settings.files import outer_layers

settings = RunSettings.of(
    sys.argv[1], conf=["spark.secret.key=hidden"], archives="env.tar.gz", tokens="tokens", master="yarn",
    token="the token", properties=["a.b=c d"], from_window=3, log_level="INFO", conf_file=["conf.yaml"],
    checkpoint=sys.argv[3], own=["--word", "hi"],
)
load_application(sys.argv[1], ["--word", "hi"])
layers = outer_layers(os.environ, ["conf.yaml"], automatic=True, faults=[])
payload.write(Path(sys.argv[2]), settings, layers, sys.argv[4], "shop", sys.argv[3])
"""
DRIVE = """
import json, os, sys
from pathlib import Path
from ridgeline.cli import main
from ridgeline.cli.load import load_application
from ridgeline.service.access.rules_file import RulesFile
from ridgeline.settings.files import outer_layers

def said():
    words = sys.argv[1:]
    name = load_application(words[1], ["--word", "hi"]).name
    files = [words[at + 1] for at, word in enumerate(words) if word == "--conf-file"]
    layers = outer_layers(os.environ, files, automatic=True, faults=(faults := []))
    values = {key: value for layer in layers for key, value in layer.values.items()}
    RulesFile(words[words.index("--tokens") + 1], print)
    print(json.dumps([words, name, values, os.environ["RIDGELINE_TOKEN"], list(map(str, faults))]))

main.main = said
from ridgeline.cli.cluster.driver import main as drive
drive()
"""


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """`call(code, folder, *words)`: what a process of its own prints that begins in a folder."""
    config = tmp_path_factory.mktemp("config") / "ridgeline"
    config.mkdir(parents=True)
    (config / "ridgeline.yaml").write_text("operator.sum.limit: 5\nrun.quiet: true\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RIDGELINE", "XDG"))}

    def run(code, folder, *words, **variables):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)], cwd=folder, env={**kept, **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.config = str(config.parent)
    return run


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "application"
    (folder / "pieces").mkdir(parents=True)
    (folder / "shop.py").write_text(APPLICATION)
    (folder / "conf.yaml").write_text("operator:\n  sum:\n    partitions: 2\nrun:\n  tokens: elsewhere\n")
    for name, text in {"__init__.py": "", "rates.py": RATES, "rate.txt": "7"}.items():
        (folder / "pieces" / name).write_text(text)
    (folder / "tokens").write_text("# none\n")
    (folder / "tokens").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def payload(call, application, store):
    """The payload of `shop.py`, whose own folder is gone."""
    found = application.parent / PAYLOAD
    call(PACK, application, "shop.py", found, store, ID, XDG_CONFIG_HOME=call.config)
    assert found.stat().st_mode & 0o777 == 0o600
    application.rename(application.parent / "gone")
    return found


@pytest.fixture
def packed(payload, tmp_path):
    """The folder of a container with the payload."""
    node = tmp_path / "node"
    node.mkdir()
    shutil.copy(payload, node / PAYLOAD)
    return node


def test_code_data_options_and_configuration_arrive_and_nothing_of_spark(packed, call):
    words, name, values, token, faults = json.loads(call(DRIVE, packed, NM_HOST="node7.example"))
    assert (name, token, faults) == ("shop-hi-7", "the token", [])
    assert words[:2] == ["run", "submitted/code/0/shop.py"]
    text = " ".join(words)
    for given in ("-D a.b=c d", "--from-window 3", "--log-level INFO", "--allow-host node7.example"):
        assert given in text
    assert words[-3:] == ["--", "--word", "hi"]
    assert not {"--conf", "--archives", "--master", "--token"} & set(words)
    assert values == {"operator.sum.limit": 5, "operator.sum.partitions": 2}  # options of the run are words
    here = [packed / "submitted", *(packed / "submitted" / name for name in ("driver.json", "files", "code"))]
    assert not [one for one in here if one.stat().st_mode & 0o077]


def test_what_the_first_attempt_has_rewound_the_next_one_does_not(packed, call, store):
    later = {"CONTAINER_ID": "container_e17_1700000000000_0042_02_000001"}
    assert "--from-window" in json.loads(call(DRIVE, packed, **later))[0]  # the first had not begun
    entry = StoreEntry("shop", "shop", 1, "running", run="ab", epoch=1, submission=ID)
    EntryFolder(str(store)).write(entry)
    (path,) = store.rglob("shop.json")
    for text in (path.read_text(), path.read_text()[:40]):  # whole, and damaged
        path.write_text(text)
        said = call(DRIVE, packed, **later).splitlines()
        assert said[0] == "attempt 2 of YARN continues: `--from-window 3` was for the first one"
        assert "--from-window" not in json.loads(said[1])[0]
    assert "--from-window" in json.loads(call(DRIVE, packed))[0]


def test_a_payload_that_is_cut_is_an_error(packed, call):
    whole = (packed / PAYLOAD).read_bytes()
    (packed / PAYLOAD).write_bytes(whole[:-30])
    with pytest.raises(AssertionError, match="BadZipFile"):
        call(DRIVE, packed)
    assert zipfile.is_zipfile(packed / PAYLOAD) is False


def test_a_token_is_found_by_its_application_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    folder = kept.make_folder("s3://b/x", "shop", ID)
    kept.keep_token(folder, "the token")
    entry = StoreEntry("shop", "shop", 1, "running", submission=ID, deploy_mode="cluster")
    assert kept.token_of("s3://b/x", entry) == "the token"
    assert kept.token_of("s3://b/y", entry) is None
    for other in (
        {"submission": "../" * 10},
        {"submission": ""},
        {"name": "../x"},
        {"deploy_mode": "client"},
    ):
        assert kept.token_of("s3://b/x", StoreEntry(**{**vars_of(entry), **other})) is None
    (folder / "token").chmod(0o666)
    assert kept.token_of("s3://b/x", entry) is None
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}


def test_old_folders_of_a_name_are_removed_but_that_of_its_entry(tmp_path, monkeypatch):
    """Its driver may have died a minute ago: YARN starts it again, and commands need its token."""
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    folders = [kept.make_folder("s3://b/x", "shop", digit * 32) for digit in "1234"]
    kept.keep_token(folders[1], "the token")
    for folder in folders[:3]:
        os.utime(folder, (0, 0))
    made = kept.make_folder("s3://b/x", "shop", ID, last="2" * 32)
    assert sorted(made.parent.iterdir()) == sorted([folders[1], folders[3], made])
    entry = StoreEntry("shop", "shop", 1, "running", submission="2" * 32, deploy_mode="cluster")
    assert kept.token_of("s3://b/x", entry) == "the token"


def vars_of(entry):
    return {name: getattr(entry, name) for name in entry.__dataclass_fields__}
