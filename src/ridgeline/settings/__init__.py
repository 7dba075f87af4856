"""Configuration of an application: files with what they include, variables, the command line."""
