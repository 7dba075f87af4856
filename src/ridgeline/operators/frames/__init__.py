"""Steps that are expressions: SQL text, or expressions of polars."""
