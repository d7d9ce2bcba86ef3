"""Strategies of the rescheduler: each suggests what should leave a node, and never acts."""
