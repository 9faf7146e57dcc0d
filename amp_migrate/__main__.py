"""`python -m amp_migrate`."""

from amp_migrate.cli import main

main()
