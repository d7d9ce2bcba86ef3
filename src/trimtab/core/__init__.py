"""Decides everything, from events alone; leaves every act, every clock and every socket to the shell."""
