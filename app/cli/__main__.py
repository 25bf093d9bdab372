"""Entry point of the program `mirrorgate`: imports the command line so that Ctrl-C never shows a traceback."""

import signal
import sys
from typing import Final, NoReturn

_INTERRUPTED: Final = 130


def main() -> NoReturn:
    """Run the command line. The imports take the first second, and Ctrl-C may come then, too."""
    try:
        from app.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter's own end takes a moment, too


if __name__ == "__main__":
    main()
