"""`trimtab deploy`: installs Trimtab into a cluster, shows its state, checks it and removes it, without kubectl and Helm."""
