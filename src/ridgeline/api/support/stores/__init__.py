"""File systems that pyarrow reaches, with what it lacks."""
