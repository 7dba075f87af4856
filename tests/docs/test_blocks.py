"""The blocks of README and docs run: Python, files, commands and what they print."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import services
from support.docs import pages
from support.docs.pages import blocks
from support.jars import jars
from support.operators.kafka_topics import producer
from support.paths import ROOT, TESTS
from support.services.fixtures import ready
from support.typing.checkers import pyright
from support.waiting import PATIENCE_SECONDS

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCKS = {page: blocks(page) for page in PAGES}
ON_SPARK = [page for page in PAGES if any(block.needs == "spark" for block in BLOCKS[page])]
LOCAL = [page for page in PAGES if page not in ON_SPARK and any(b.language == "python" for b in BLOCKS[page])]
TYPED = [page for page in PAGES if any(block.needs == "mypy" for block in BLOCKS[page])]
KAFKA = ROOT / "docs" / "guide" / "kafka.md"
SERVICES = ROOT / "docs" / "services.md"


def name(page):
    return page.stem


@pytest.mark.guide("004", "User Defined")
@pytest.mark.parametrize("page", LOCAL, ids=name)
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.run(page, called=pages.STARTS_NOTHING)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", ON_SPARK, ids=name)
def test_the_blocks_of_a_page_run_on_spark(page, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "support.docs.pages", page, "spark"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE_SECONDS,  # its commands have their own
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", TYPED, ids=name)
def test_the_blocks_on_types_run_with_mypy_and_pyright_finds_the_same_lines(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.run(page, having={"mypy"})
    for block in BLOCKS[page]:
        if block.needs == "mypy":
            [(command, printed)] = block.commands
            file = tmp_path / command.split()[-1]
            lines = {
                (file.name, int(line))
                for line in re.findall(rf"^{re.escape(file.name)}:(\d+): error", printed, re.MULTILINE)
            }
            found, text = pyright([file], tmp_path)
            assert found == lines, text


@pytest.mark.spark
@pytest.mark.slow
def test_the_blocks_on_kafka_run_with_a_broker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broker = ready(services.kafka)
    broker.topic("trades", partitions=2)
    trades = producer(broker)
    for symbol, shares in (("IBM", 100), ("AAPL", 5), ("IBM", 20)):
        trades.produce("trades", key=symbol, value=str(shares))
    trades.flush(PATIENCE_SECONDS)
    pages.run(KAFKA, having={"kafka"}, replaced=_with(broker))
    written = [
        json.loads(line) for path in Path("volumes").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert {("IBM", 120), ("AAPL", 5)} <= {(row["symbol"], row["shares"]) for row in written}


@pytest.mark.slow
def test_the_blocks_on_services_run_with_a_server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready(services.postgres)
    pages.run(SERVICES, having={"services"})


def _with(broker):
    coordinates = re.search(r"spark\.jars\.packages=\S+", KAFKA.read_text()).group()
    return [
        (coordinates, f"spark.jars={','.join(map(str, jars('spark-kafka')))}"),
        ("localhost:9092", broker.servers),
    ]
