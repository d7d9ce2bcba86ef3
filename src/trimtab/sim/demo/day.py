"""The second part of the demo: a day on a small cluster."""

from __future__ import annotations

from trimtab.core.model.duration import HOUR
from trimtab.sim.demo.scene import Play, Scene

# The scenario begins at eight in the morning; pod-15 and pod-16 arrive six and eighteen hours later.
AFTERNOON, NIGHT = 6 * HOUR, 18 * HOUR

DAY_PLAY = Play(
    "day",
    (
        Scene(
            "Twelve pods",
            "One control-plane node with a taint and three workers, each with 8 CPU and 16 GiB. Twelve pods arrive, one "
            "every ten seconds. None tolerates the taint, so all of them go to the workers.",
            150.0,
            2.5,
        ),
        Scene(
            "A pod too large for any node",
            "It requests 12 CPU, and the largest node has 8. The message is kube-scheduler's, and the pod is not tried "
            "again until something changes that could help.",
            180.0,
            2.5,
        ),
        Scene(
            "A larger node joins",
            "worker-4 has 16 CPU and 32 GiB. The pending pod is requeued and tried again at once.",
            210.0,
            2.5,
        ),
        Scene(
            "A node is cordoned",
            "worker-2 takes no new pods from now on. Its running pods stay.",
            240.0,
            2.5,
        ),
        Scene(
            "Until two in the afternoon",
            "For six hours no request changes, but usage does: some pods are busy by day. At two, pod-15 arrives.",
            AFTERNOON + 60,
            900.0,
        ),
        Scene(
            "Until two at night",
            "The same requests, but other pods are busy now. pod-16 requests the same as pod-15; measured usage decides "
            "where it goes.",
            NIGHT + 60,
            1800.0,
        ),
    ),
)
