"""Files of changes -> request bodies within a size, cut between messages: what `mirrorgate send` posts.

Pure: the stream is given as chunks of any size, and only what the present part needs is held.
"""
