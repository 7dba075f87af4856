"""What is said of an application in files: specifications, configuration, packages."""
