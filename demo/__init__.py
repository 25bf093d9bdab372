"""`make demo`: run the whole gateway on real messages and check every landed row.

The demo starts `mirrorgate up`, posts the sample messages of both formats and a stream of changes, waits until
everything is published, reads the landing zone with PyArrow alone and compares it with what was posted. `workload`
makes the changes, `samples` has the documented messages, `poster` sends them, and `landing_reader` reads the files.
"""
