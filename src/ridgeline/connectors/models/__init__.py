"""Models: predict by those of scikit-learn, ONNX or a function."""

from ridgeline.connectors.models.model_operator import ModelOperator

__all__ = ["ModelOperator"]
