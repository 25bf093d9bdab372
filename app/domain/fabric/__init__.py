"""What Fabric's states mean: of a mirrored database and of its tables, as its API reports them.

`states` has the values, `remedies` what to do about each, and `trouble` judges what a drain has stored: whether it
needs an operator, and why. `app.fabric` makes the values from answers of the API.
"""
