"""Entry point of the program `mirrorgate`: runs the command line so that Ctrl-C never shows a traceback."""

import signal
import sys
from typing import NoReturn

from mirrorgate.cli.console import INTERRUPTED


def main() -> NoReturn:
    """Run the command line. The imports are inside: Ctrl-C may arrive while they run."""
    try:
        from mirrorgate.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would interrupt the interpreter's own exit


if __name__ == "__main__":
    main()
