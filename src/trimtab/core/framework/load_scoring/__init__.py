"""What policies that look at measured load have in common; what each makes of it is left to the plugins."""
