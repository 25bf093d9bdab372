"""Tests of what is installed: the packages of each lock are enough for the part that it is for."""
