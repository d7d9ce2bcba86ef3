"""Rivals: the reschedulers of other projects as they behave, to compare with in the simulator. Never run live."""
