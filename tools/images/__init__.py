"""Build the Dockerfile's stages without Docker: `make images` runs their steps in root file systems of Debian.

The steps of the Dockerfile are then executed and not only read, on machines where no Docker daemon can run.
"""
