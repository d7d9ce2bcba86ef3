"""What load-aware plugins share: utilisation of nodes, in arrays and in plain numbers, and thresholds as filter codes."""
