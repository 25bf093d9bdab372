"""The mode of a load session: all that the options of commands need of loads."""

from enum import StrEnum


class LoadMode(StrEnum):
    """What completing a load deletes: the rows that it did not have, or nothing."""

    FULL = "full"
    APPEND = "append"
