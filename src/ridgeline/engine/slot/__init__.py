"""A slot: a long Spark task whose process hosts containers."""
