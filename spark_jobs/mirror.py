"""Entry point of the mirror: `python -m spark_jobs.mirror [--once]`, or `spark-submit … spark_jobs/mirror.py`."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports, which take a second, without a traceback
    from spark_jobs.mirroring.process import main

    main()
