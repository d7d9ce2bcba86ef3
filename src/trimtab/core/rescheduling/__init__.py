"""The rescheduling controller: moves running pods before nodes overheat."""
