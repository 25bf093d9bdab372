"""A finding of a check: one deviation from the rules of open mirroring, at one place.

Errors of a check, or of the store under it, become findings too (`guarded`): no content of a zone ends a run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.published.table_metadata import UnreadableFile, UnreadableMetadata
from app.verify.codes import FindingCode, Severity
from mirrorgate.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation. Severity and remedy follow from the code."""

    code: FindingCode
    detail: str
    """Explanation of the problem, with names and numbers and without a row value."""
    table: str | None = None
    """`schema.table` or `table`; None for a finding about the zone."""
    file: str | None = None
    """Path below the zone's root; None for a finding about the table or the zone."""

    @property
    def severity(self) -> Severity:
        """Severity of the finding."""
        return self.code.severity

    @property
    def remedy(self) -> str:
        """Instruction that resolves the finding."""
        return self.code.remedy

    def to_json(self) -> dict[str, str | None]:
        """Return the finding as `verify --json` prints it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "table": self.table,
            "file": self.file,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def guarded(
    checks: Callable[[], Iterator[Finding]], name: str, *, table: str | None = None, file: str | None = None
) -> Iterator[Finding]:
    """Yield what the checks find. An exception ends them and becomes the last finding, about `table` and `file`.

    Raise Misconfigured, which is about the command and not about the zone, and KeyboardInterrupt.
    """
    try:
        yield from checks()
    except Misconfigured:
        raise
    except FileNotFoundError:
        detail = f"{name}: a file was moved or deleted while it was read"
        yield Finding(FindingCode.NOT_CHECKED, detail, table, file)
    except OSError as error:
        reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
        yield Finding(FindingCode.CANNOT_READ, f"{name}: {reason}", table, file)
    except (UnreadableFile, UnreadableMetadata) as error:
        yield Finding(FindingCode.CANNOT_READ, f"{name}: {error.reason}", table, file or error.path)
    except Exception as error:  # the last resort: a zone is foreign input
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        # The text of an unknown error can contain a row value; its type cannot.
        yield Finding(FindingCode.CHECK_FAILED, f"{name}: {type(error).__name__}", table, file)


def _is_interrupt(error: Exception) -> bool:
    """Return whether Ctrl-C ended a query: DuckDB replaces KeyboardInterrupt by a RuntimeError with this text."""
    return isinstance(error, RuntimeError) and "interrupted" in str(error).lower()
