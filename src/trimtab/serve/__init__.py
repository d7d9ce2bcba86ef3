"""Decides how HTTP requests are answered; leaves what there is to tell to the core and its views."""
