"""The scheduling controller: queue, scheduling cycle, binding cycle, preemption and gangs."""
