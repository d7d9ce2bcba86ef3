"""What a labeller runs with: thresholds of rules, the rule.yaml of the labeller before us, and both together."""
