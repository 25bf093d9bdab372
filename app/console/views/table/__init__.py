"""What the pages of one table show.

`head` has what all of them have in common: the name, the state and the tabs. `status`, `files`, `schema` and `events`
make a view for each tab. Functions take rows of staging and return frozen dataclasses.
"""
