"""``python -m mix2fld``."""

from mix2fld.cli import main

main()
