"""`python -m runcast` is the command line."""

from runcast.cli import main

main()
