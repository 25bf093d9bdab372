"""Program for tests: supervises the children described by `NAME[:trait…]` arguments, all noting into FOLDER.

`supervises FOLDER STOP_WITHIN NAME[:trait…]…`; the trait `dying` makes a child that ends at once. Writes
`ready` and `trouble NAME` to standard output.
"""

import os
import sys
from pathlib import Path

import structlog

from app import supervisor
from app.supervisor import Child


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder, stop_within, *described = sys.argv[1:]
    # The process that reads this one's output must see its end even if a child outlives it.
    log_file = Path(folder) / "children.log"

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def child(description: str) -> Child:
        name, *traits = description.split(":")
        command = [sys.executable, "-m", "tests.embedded.lasting_child", folder, name, str(os.getpid()), *traits]
        if "dying" in traits:
            command = [sys.executable, "-c", "raise SystemExit(3)"]
        return Child(name, command, dict(os.environ), log_file=log_file, stop_within=float(stop_within))

    children = [child(description) for description in described]
    supervisor.run(
        children,
        is_ready=lambda: all((Path(folder) / f"{one.name}.events").exists() for one in children),
        on_ready=lambda: say("ready"),
        on_trouble=lambda one: say(f"trouble {one.name}"),
    )


if __name__ == "__main__":
    main()
