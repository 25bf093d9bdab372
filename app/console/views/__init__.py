"""What each page of the console shows, as frozen dataclasses, and pure functions that make them.

A view has what its template prints, already chosen and ordered for the caller's rights; the template decides only how
it looks. Functions take rows of staging, the time and limits as arguments.
"""
