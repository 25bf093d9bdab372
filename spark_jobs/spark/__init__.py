"""The drain's Spark session and its health.

`session` starts it, with options that fit one machine or a cluster, and `jvm_output` turns what its JVM prints into log
lines. `health` notices a Spark that is gone or stuck, `watchdog` then asks the drain to stop, and `bounded_stop` ends
the process if it does not. Build tasks themselves are in `spark_jobs.build_files`.
"""
