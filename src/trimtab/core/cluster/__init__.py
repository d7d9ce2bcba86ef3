"""The cluster state: nodes, pods and other objects, and the tables that plugins read."""
