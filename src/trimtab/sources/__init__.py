"""Where measurements come from: each source asks one place; whether its answers are believed is left to the core."""
