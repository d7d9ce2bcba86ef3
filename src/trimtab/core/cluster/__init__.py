"""The state: one array per resource with one cell per node, and the pods behind the sums; decides nothing."""
