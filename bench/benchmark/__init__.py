"""The public benchmark of load-aware policies: every policy on public traces and shipped scenarios."""
