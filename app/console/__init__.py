"""The console: HTML pages for operators. No FastAPI and no SQL: it takes values and returns bytes.

`render` fills the Jinja2 template of a page with domain records and values by name, and with the `Chrome` around each
page; its filters (`text`) format numbers and times. It makes addresses, and serves the style sheet, the scripts and the
vendored libraries under content hashes. `overview` and `table` choose and order what a page shows of many records.
`app.api.console` has the routes. Invariant: every value of a page is escaped by the template engine; no template marks
a value as safe, and no page has an inline script or style.
"""
