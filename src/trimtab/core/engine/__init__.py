"""The one door: facts in, instructions out. Keeps the queue, the flights and the order of turns; performs nothing."""
