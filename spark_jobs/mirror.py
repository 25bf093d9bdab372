"""Entry point of the mirror: `python -m spark_jobs.mirror [--once]`, or `spark-submit … spark_jobs/mirror.py`."""

import signal


def main() -> None:
    """Run the mirror as a process. Ctrl-C during the imports, which take a second, ends it without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from spark_jobs.mirroring.process import main as run

    run()


if __name__ == "__main__":
    main()
