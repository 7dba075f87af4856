"""In Spark's Python workers: runs containers and reports what they are doing."""
