"""What a labeller runs with: rules as our own file has them, or the rule.yaml of before us, and what both come to."""
