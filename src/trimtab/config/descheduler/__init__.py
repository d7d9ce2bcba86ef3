"""Reads the files of other reschedulers: a DeschedulerPolicy of the SIG descheduler, and Koordinator's configuration."""
