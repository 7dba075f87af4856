"""The tests. A package, since one of the same name is installed with a program that they use."""
