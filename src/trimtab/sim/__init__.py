"""Decides how a pretended cluster and its clock behave; leaves every scheduling decision to the core."""
