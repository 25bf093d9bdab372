"""One history of a source table written in every form that the gateway reads.

Every tool writes the same events differently, and none of them may change what lands. Invariant: each form of
`catalogue.FORMS` tells the whole history, so its landing rows are those of every other form.
"""
