"""Rebuilds: a table's next generation from its row images.

`plan` decides which columns and keys the next generation has, and `rebuilt_rows` turns images into its rows, keys and
images, or names what does not fit. `plain_images` reads most of them without a Python object for each value.
"""
