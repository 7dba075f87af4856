"""`python -m ridgeline` is the `ridgeline` command."""

from ridgeline.cli.main import main

if __name__ == "__main__":
    main()
