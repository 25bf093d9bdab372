"""Exit statuses of commands that mean more than success (0), an error (1) or wrong usage (2)."""

from typing import Final

PLAN_HAS_CHANGES: Final = 2
"""`tables apply --plan --detailed-exitcode` found something to do."""

COULD_NOT_RUN: Final = 2
"""`verify` could not check the zone, which is neither a success nor a finding."""

CANNOT_START: Final = 78
"""A program that runs the gateway or a part of it cannot start as it is configured (EX_CONFIG of sysexits.h)."""

INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM ended the command (128 + SIGINT, as shells report it)."""
