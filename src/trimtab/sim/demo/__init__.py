"""The simulated clusters that `trimtab demo` shows."""
