"""Spark's Python daemon with the modules of a job imported: `python -m spark_jobs.spark.worker_daemon pyspark.worker`.

Spark starts one daemon, which forks the workers, and ends a worker that was idle for a minute. The imports take 0.6 s
of a core. Here the daemon does them once, when the job starts, instead of each new worker during its first task
(performance notebook). This module is the drain's daemon; `mirror_daemon` is the mirror's.

Invariant: the daemon has one thread, because a fork copies no other.
"""

import gc
import os
from collections.abc import Iterable
from importlib import import_module
from typing import Final

from pyspark import daemon

_DRAIN_MODULES: Final = ("pyspark.worker", "spark_jobs.build_files", "sqlalchemy.dialects.postgresql.psycopg")
WORKER_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "_RJEM_MALLOC_CONF": "background_thread:false,dirty_decay_ms:500,muzzy_decay_ms:0",
}
"""NumPy, PyArrow and deltalake start threads when they are imported, unless these variables are set.

deltalake's allocator gives freed memory back after half a second; it would keep a gigabyte of a MERGE for ten seconds,
until the next one needs as much elsewhere (performance notebook).
"""


def run_daemon(modules: Iterable[str]) -> None:
    """Import what tasks need, then run Spark's daemon until Spark closes its input."""
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()  # workers share these pages, and leave them out of the collection after each task
    daemon.manager()


if __name__ == "__main__":
    run_daemon(_DRAIN_MODULES)
