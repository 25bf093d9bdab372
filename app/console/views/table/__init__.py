"""What the pages of one table show.

`head` has what all of them have in common: the name, the state and the tabs. `status`, `files`, `schema`, `rows` and
`events` make a view for each tab, `loads` a part of the status, and `operations` those of the actions. `rebuild` has
the pages of a rebuild, `plan_fields` the form of its plan. Functions take rows of staging and return frozen
dataclasses.
"""
