"""Where `mirrorgate up` writes its own log events: JSON for services, a file and short warnings for people."""

from functools import partial
from pathlib import Path

from rich.console import Console

from app.local.log_files import RotatingFile, Rotation
from app.observability.telemetry import Event, configure_logging
from app.settings import LogFormat, Settings


def configure_up_logging(settings: Settings, data_dir: Path, console: Console) -> None:
    """Configure logging for a service or for a terminal.

    A service gets JSON lines on standard error. On a terminal, log events go to `up.log`, and only warnings and errors
    are shown, in words. The file is created with its first line, never before the data directory exists.
    """
    if not console.is_terminal or settings.log_format is not LogFormat.JSON:
        configure_logging(settings)
        return
    file = RotatingFile(data_dir.absolute() / "up.log", Rotation(settings.log_bytes, settings.log_files))
    configure_logging(settings, file, show=partial(_show, console))


def _show(console: Console, event: Event) -> None:
    """Print a warning or an error in words: its detail and remedy, else its name and facts."""
    facts = {name: value for name, value in event.items() if name not in {"event", "level", "timestamp"}}
    told = [str(facts[name]) for name in ("detail", "remedy") if facts.get(name)]
    words = str(event["event"]).replace("_", " ")
    text = ". ".join(told) or ", ".join([words, *(f"{name.replace('_', ' ')} {fact}" for name, fact in facts.items())])
    console.print(f"{event['level']}: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
