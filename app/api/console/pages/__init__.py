"""The pages of the console: a module for each section, and three for the pages of one table.

A route is a plain function, so that it runs in a worker thread: it asks the user for the right that it needs, reads
through `app.staging` in one transaction, and gives its template what it has read. `visit` finds the table of a page and
reads forms about it, `acts` lists what a user can do with a table and plans rebuilds, and `table` has the routes.
"""
