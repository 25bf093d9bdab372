"""The pages of the console, one module with a router for each section.

A route is a plain function, so that it runs in a worker thread: it asks the user for the right that it needs, reads
through `app.staging` in one transaction, makes a view with a function of `app.console.views`, and returns the page.
"""
