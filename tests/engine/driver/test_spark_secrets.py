"""Secrets on Spark: set in code and from outside, used in `setup`, nowhere in the checkpoint folder."""

from __future__ import annotations

import contextlib
import hashlib
import stat
import zlib
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pytest
from pydantic import SecretBytes, SecretStr

from ridgeline import Application, InputOperator, OperatorContext, OutputPort
from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.operators import FileOutput
from ridgeline.plan.planner import plan_application


class Found(NamedTuple):
    digest: str


class Rates(InputOperator):
    output = OutputPort(Found)

    api_key: SecretStr
    blob: SecretBytes
    url: str

    def setup(self, context: OperatorContext) -> None:
        whole = self.api_key.get_secret_value().encode() + self.blob.get_secret_value() + self.url.encode()
        self._digest = hashlib.sha256(whole).hexdigest()

    def emit_tuples(self) -> None:
        self.output.emit(Found(self._digest))
        self.finish()


@pytest.mark.spark
def test_secrets_reach_setup_and_no_file(tmp_path: Path, spark_context: Any) -> None:
    key, blob, url = token_hex(), token_hex(), f"redis://:{token_hex()}@cache"
    app = Application("rates")
    rates = app.add_operator("rates", Rates(api_key=SecretStr(key), blob=SecretBytes(b"x"), url=url))
    app.add_stream(
        "found",
        rates.output,
        app.add_operator("files", FileOutput(path=str(tmp_path / "out"), format="jsonl")).input,
    )
    plan = plan_application(app, {"rates.blob": blob})
    launch(plan, Options(checkpoint=str(tmp_path / "state")), context=spark_context)

    [written] = (tmp_path / "out").glob("*.jsonl")
    assert hashlib.sha256((key + blob + url).encode()).hexdigest() in written.read_text()
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            with contextlib.suppress(zlib.error):  # archives of files lie there, too
                content += zlib.decompress(content) if path.parent.name == "plans" else b""
            assert not [secret for secret in (key, blob, url[9:-6]) if secret.encode() in content], path
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
