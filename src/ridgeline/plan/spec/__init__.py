"""Specifications: an application as a document, in JSON, YAML, TOML or as Java properties.

Text in, `Application` out, and back. Files are read by `ridgeline.settings`.
"""
