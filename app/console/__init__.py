"""The console: HTML pages for operators. No FastAPI and no SQL: it takes values and returns bytes.

`views` turns rows of staging into view dataclasses; `render` fills the Jinja2 template of a page with a view and with
the `Chrome` around each page; `text` formats numbers and times; `assets` holds the style sheet, the scripts and the
vendored libraries under content hashes. `app.api.console` has the routes. Invariant: every value of a page is escaped
by the template engine; no template marks a value as safe, and no page has an inline script or style.
"""
