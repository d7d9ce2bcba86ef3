"""Decides which node a pod gets; leaves single judgements to the plugins and the order of pods to the engine."""
