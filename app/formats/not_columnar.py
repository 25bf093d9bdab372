"""The exception with which every columnar decoder declines a body."""


class NotColumnar(Exception):
    """A body or a message is unusual or wrong in some way, so the exact path has to read it."""
