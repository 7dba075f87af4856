"""Spark itself: its session, its JVM, its RDDs and files."""
