"""What a pod will use that nobody has seen use anything: learnt from others, or by one of the peers' rules."""
