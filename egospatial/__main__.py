"""``python -m egospatial``."""

from egospatial.cli import main

main()
