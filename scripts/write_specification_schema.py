"""Write the JSON Schema of specifications from the models: `python scripts/write_specification_schema.py`."""

from __future__ import annotations

import json
from pathlib import Path

from ridgeline.plan.spec.model import json_schema

PAGE = Path(__file__).parents[1] / "docs" / "specification.schema.json"


def render() -> str:
    """The file's text."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE}")
