"""The Spark session of the drain and the mirror, and its health.

`session` starts it, with options that fit one machine or a cluster, and turns what its JVM prints into log lines.
`health` notices a Spark that is gone or stuck, `watchdog` then asks the process to stop, and ends it if it does not.
`worker_daemon` and `mirror_daemon` fork the Python workers. The tasks themselves are in `spark_jobs.build_files` and
`spark_jobs.mirroring`.
"""
