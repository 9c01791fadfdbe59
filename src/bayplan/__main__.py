"""``python -m bayplan``."""

from bayplan.cli import main

main()
