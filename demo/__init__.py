"""`make demo`: the whole gateway on real messages, checked to the last row.

It starts `mirrorgate up`, posts the sample messages of both formats and a stream of changes, waits until all is
published, reads the landing zone with PyArrow alone and compares it with what was posted.
"""
