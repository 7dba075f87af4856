"""What is said of an application in files: specifications, and what they include."""
