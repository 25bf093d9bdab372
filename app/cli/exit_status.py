"""Exit statuses of commands that mean more than success (0), an error (1) or wrong usage (2)."""

from typing import Final

PLAN_HAS_CHANGES: Final = 2
"""`tables apply --plan --detailed-exitcode` found something to do."""

COULD_NOT_RUN: Final = 2
"""`verify` could not check the zone, which is neither a success nor a finding."""

INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM ended the command (128 + SIGINT, as shells report it)."""
