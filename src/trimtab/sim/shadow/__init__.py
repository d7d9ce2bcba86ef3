"""The shadow: what a policy would have decided for the pods of a live cluster, and what that would have changed."""
