"""``python -m isobag`` is the command ``isobag``."""

from isobag.cli import main

if __name__ == "__main__":
    main()
