"""The forms in which Replicate's messages arrive: -> the parts of a data message, wherever the message has them.

`envelope` has the messages of the default format as they are written, and the parts. `standard_form` finds the parts in
that format, `custom_form` in another one, which a layout (`layouts`) describes by `places`. `table_from` finds the
table that a message names, `key_records` the key of a deleted row that is not in its message. `message_form` says
which of these a request asks for. Sources: docs/reference/replicate.md.
"""
