"""The labelling controller: pressure labels and soft taints of nodes."""
