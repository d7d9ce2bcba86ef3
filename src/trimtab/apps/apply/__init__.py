"""`trimtab apply`: carries out a plan file with the operator's own credentials, by a rescheduler that ends with its moves."""
