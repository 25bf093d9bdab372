"""What the figures of the mirror share: landing files to apply, the mirror's process, and plain appends beside it."""
