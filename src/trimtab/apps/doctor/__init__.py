"""`trimtab doctor`: checks of a cluster and a configuration."""
