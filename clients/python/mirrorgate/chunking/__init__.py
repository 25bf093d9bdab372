"""Cut files of changes into request bodies of a bounded size, between messages: what `mirrorgate send` posts.

`json_messages` and `csv_records` find where messages end, and `chunks` groups them into `Chunk`s within `Limits`. No
input or output happens here: a stream is given as blocks of any size, and the memory in use is bounded by the current
chunk, not by the stream.
"""
