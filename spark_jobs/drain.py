"""Entry point of the drain: `python -m spark_jobs.drain [--once]`, or `spark-submit … spark_jobs/drain.py`."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports, which take a second, without a traceback
    from spark_jobs.drain_process import main

    main()
