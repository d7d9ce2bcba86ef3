"""What the plugins about volumes share: a pod's claims, the nodes a volume can be reached from, and what to bind."""
