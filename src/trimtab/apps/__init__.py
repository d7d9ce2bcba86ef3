"""Decides how the parts are wired into a program; leaves every decision to them."""
