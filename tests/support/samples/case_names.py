"""Names of parametrized cases."""

from typing import Any


def case_name(case: Any) -> str:
    """Return the start of the case as it is written. Backslashes are replaced: pytest escapes them once per use."""
    return ascii(case)[:50].replace("\\", "/")
