"""`make conformance WORKSPACE=…`: ask, run, and write the report."""

import argparse
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import NoReturn

from mirrorgate.errors import MirrorgateError
from tools.conformance.report import Report, say
from tools.conformance.run import PREFIX, Plan, run

_INTERRUPTED = 130


def main(environment: Mapping[str, str] | None = None) -> int:
    """Return the exit status: 0 if every step succeeded, 1 if not, 130 after Ctrl-C.

    `environment` has more variables for the gateway of the run.
    """
    arguments = _parser().parse_args()
    database = f"{PREFIX}{datetime.now(UTC):%Y%m%d_%H%M%S}_{token_hex(2)}"
    print(
        f"This creates the mirrored database {database} in the workspace {arguments.workspace}, starts a gateway on "
        "this machine, waits until Fabric has mirrored its tables, and "
        f"{'keeps' if arguments.keep else 'deletes'} the database. It uses 10 to 20 minutes of the capacity."
    )
    if not arguments.yes and not _is_wanted():
        print("nothing was done", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup sets this, and means it
        signal.signal(signal.SIGHUP, _interrupt)
    report = Report({"started": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"})
    try:
        plan = Plan(
            arguments.workspace, database, arguments.keep, arguments.timeout, environment=dict(environment or {})
        )
        run(plan, report)
    except MirrorgateError as error:
        print(f"error {error.code}: {error.detail}\n{error.remedy}", file=sys.stderr)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        report.write(arguments.report)
        say(f"the report is in {arguments.report}")
    return 0 if report.is_conformant else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance", description=__doc__)
    parser.add_argument("--workspace", required=True, help="name or id of the workspace")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--keep", action="store_true", help="leave the database in the workspace")
    parser.add_argument(
        "--timeout", type=float, default=1_800.0, help="seconds that Fabric may take for a round of files (1800)"
    )
    parser.add_argument("--report", type=Path, default=Path("conformance.md"), help="file of the report")
    return parser


def _is_wanted() -> bool:
    """Ask on a terminal; elsewhere the answer is no."""
    return sys.stdin.isatty() and input("Go on? [y/N] ").strip().casefold() in ("y", "yes")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
