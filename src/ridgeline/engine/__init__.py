"""How plans run on Spark: the only package that imports pyspark."""
