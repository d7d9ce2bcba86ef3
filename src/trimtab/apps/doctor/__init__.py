"""What is wrong with a cluster and a configuration, and what to do about it: looks at everything once, changes nothing."""
