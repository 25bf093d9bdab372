"""The Hypothesis profile of this suite: the same examples in every run, no deadline, no database on disk.

`pytest --hypothesis-profile=thorough` looks at many more, other ones each time.
`mutants` is for mutation testing, which wants to know whether a test fails, not the smallest example of it.
"""

from hypothesis import Phase, settings

settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2_000, print_blob=True)
settings.register_profile("mutants", settings.get_profile("quick"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("quick")
