"""Models of the routes in `app.api.routes.recovery`: `source_checks` has those of comparisons with the source."""
