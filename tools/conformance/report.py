"""The report of a run: each step with its outcome and duration, shown as it goes and written as Markdown."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mirrorgate.errors import MirrorgateError


class Outcome(StrEnum):
    """The outcome of a step."""

    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class StepFailed(Exception):
    """A step did not give what it should. The text says what."""


class RunEnded(Exception):
    """A step failed that all later ones need; the report has the reason."""


def say(text: str) -> None:
    """Print a line. A closed terminal or pipe loses the line and stops no step: the deletion must still happen."""
    with suppress(OSError):
        print(text, flush=True)


@dataclass
class Step:
    """One step of a run."""

    name: str
    outcome: Outcome = Outcome.OK
    seconds: float = 0.0
    detail: str = ""


@dataclass
class Report:
    """The steps of a run, and facts about it."""

    facts: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    tables: list[tuple[str, ...]] = field(default_factory=list)
    """Fabric's own last status of each table."""

    @property
    def is_conformant(self) -> bool:
        """True if every step succeeded."""
        return bool(self.steps) and all(step.outcome is Outcome.OK for step in self.steps)

    @contextmanager
    def step(self, name: str, *, is_needed: bool = True) -> Iterator[Step]:
        """Time a step and keep its outcome. A step that fails ends the run with RunEnded, unless it is not needed."""
        step, started = Step(name), time.monotonic()
        self.steps.append(step)
        try:
            say(f"{name} …")
            yield step
        except (MirrorgateError, StepFailed, OSError) as error:
            step.outcome, step.detail = Outcome.FAILED, _text(error)
            if is_needed:
                raise RunEnded from error
        except KeyboardInterrupt:
            step.outcome = Outcome.INTERRUPTED
            raise
        except Exception as error:
            step.outcome, step.detail = Outcome.FAILED, type(error).__name__
            raise
        finally:
            step.seconds = time.monotonic() - started
            say(f"  {step.outcome} after {step.seconds:.0f} s{f': {step.detail}' if step.detail else ''}")

    def markdown(self) -> str:
        """Return the report for people and for an issue."""
        verdict = "Every step succeeded." if self.is_conformant else "**Not every step succeeded.**"
        lines = ["# Conformance with Microsoft Fabric", "", verdict, "", "| | |", "|---|---|"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in self.facts.items()]
        lines += ["", "| step | outcome | seconds | detail |", "|---|---|---|---|"]
        lines += [f"| {one.name} | {one.outcome} | {one.seconds:.0f} | {_cell(one.detail)} |" for one in self.steps]
        if self.tables:
            lines += ["", "Fabric's last status of the tables:", ""]
            lines += ["| table | state | rows | bytes | error |", "|---|---|---|---|---|"]
            lines += [f"| {' | '.join(map(_cell, row))} |" for row in self.tables]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Write the report; a former one is replaced."""
        path.write_text(self.markdown(), encoding="utf-8")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _text(error: Exception) -> str:
    if isinstance(error, MirrorgateError):
        return f"{error.code}: {error.detail}. {error.remedy}"
    return str(error) or type(error).__name__
