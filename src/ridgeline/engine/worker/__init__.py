"""In Spark's Python workers: runs containers, and says what they are doing."""
