"""`trimtab whatif`: reads the cluster and the question, and puts the simulated answer into words."""
