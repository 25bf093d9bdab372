"""What the console and the alerts judge alike: backlogs near their limits, parts that can wait, and quarantines."""

from typing import Final

from app.errors import Code

NEAR_LIMIT: Final = 0.8
"""The share of its limit from which a backlog needs attention."""

BACKLOG_REMEDY: Final = "Check that the drain keeps up, and give it more executors."

PATIENT_PARTS: Final = frozenset({"clock", "mirror"})
"""Parts of the gateway whose troubles stop nothing that is published for Fabric, so they are warnings."""


def code_in(reason: str | None) -> Code | None:
    """Return the error code that the reason of a quarantine begins with."""
    code, colon, _ = (reason or "").partition(":")
    return Code(code) if colon and code in Code._value2member_map_ else None


def remedy_in(reason: str | None) -> str:
    """Return the remedy of the error code that the reason of a quarantine begins with."""
    code = code_in(reason)
    return code.remedy if code else "Find out why, then release the table with its generation."
