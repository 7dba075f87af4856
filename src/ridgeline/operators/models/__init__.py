"""Models and scripts: predict by those of scikit-learn, ONNX or a function; run text."""

from ridgeline.operators.models.model_operator import ModelOperator
from ridgeline.operators.models.script_operator import ScriptOperator

__all__ = ["ModelOperator", "ScriptOperator"]
