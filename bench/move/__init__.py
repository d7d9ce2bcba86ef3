"""Trimtab's rescheduler and the SIG descheduler, taking turns on one live cluster with the same replayed load."""
