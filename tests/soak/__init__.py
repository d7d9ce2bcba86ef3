"""Tests of more than a minute, run by `make soak`."""
