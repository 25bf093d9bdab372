"""`make demo`: run the whole gateway on real messages and check every landed row.

The demo starts `mirrorgate up --mirror`, posts the sample messages of both formats and a stream of changes, waits until
everything is published, reads the landing zone with PyArrow alone and compares it with what was posted. Then it folds
what was posted and compares it with the mirrored Delta tables. `workload` makes the changes, `samples` has the
documented messages, `poster` sends them, `landing_reader` reads the files and `mirror_reader` the Delta tables;
`mirror_checks` compares these.
"""
