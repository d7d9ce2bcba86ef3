"""`trimtab plan`: lets the rescheduler plan once on a snapshot of a cluster, and puts the plan into words and into a file."""
