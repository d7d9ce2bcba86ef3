"""Frozen values that everything else speaks in; decides nothing and knows neither columns nor the wire's bytes."""
