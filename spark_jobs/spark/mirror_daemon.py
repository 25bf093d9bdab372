"""The mirror's Python daemon for Spark: `worker_daemon` with the modules that apply landing files.

deltalake starts its threads with its first call, not with its import, and rejects a call in a fork of a process that
has made one. So the daemon imports it, and only the workers use it (decision 0037).
"""

from typing import Final

from spark_jobs.spark.worker_daemon import run_daemon

_MODULES: Final = ("pyspark.worker", "spark_jobs.mirroring.task")

if __name__ == "__main__":
    run_daemon(_MODULES)
