"""The client of the API server: list and watch, leader election, writes."""
