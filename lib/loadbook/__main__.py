"""`python -m loadbook` is the command `loadbook`."""

from loadbook.cli import main

main()
