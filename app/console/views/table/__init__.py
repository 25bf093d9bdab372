"""What the pages of one table show.

`head` has what all of them have in common: the name, the state and the tabs. `status`, `files`, `schema`, `rows` and
`events` make a view for each tab, `operations` those of the actions. Functions take rows of staging and return frozen
dataclasses.
"""
