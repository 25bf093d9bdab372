"""The Hypothesis profile of this suite: the same examples in every run, no deadline, no database on disk.

`pytest --hypothesis-profile=thorough` looks at many more, other ones each time.
"""

from hypothesis import settings

settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2_000, print_blob=True)
settings.load_profile("quick")
