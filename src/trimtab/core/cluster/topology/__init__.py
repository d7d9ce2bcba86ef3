"""How pods stand in domains of nodes: who picks whom, and counts by row and domain that events keep true; decides nothing."""
