"""Specifications: an application as a document, in JSON, YAML or as Java properties.

Text in, `Application` out, and back. Files are read by `ridgeline.settings`.
"""
