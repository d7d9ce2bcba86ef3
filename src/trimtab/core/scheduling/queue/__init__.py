"""The scheduling queue, and the hints that wake unschedulable pods."""
