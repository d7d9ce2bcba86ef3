"""The load-aware policies of kubernetes-sigs/scheduler-plugins (Trimaran), and what they share."""
