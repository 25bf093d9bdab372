"""Models of the routes in `app.api.routes.recovery`.

`source_checks` has those of comparisons with the source: a request has what the source counted, the answer where the
gateway differs. Routes hand the models to `app.api.operations` and return what that makes of them.
"""
