"""Koordinator's priority and QoS classes of a pod, by its labels, priority and requests."""

from __future__ import annotations

from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.disruption import BEST_EFFORT, qos_class

CLASS_LABEL, QOS_LABEL = "koordinator.sh/priority-class", "koordinator.sh/qosClass"
FREE, BATCH, MID, PROD = 1, 2, 3, 4
BY_CLASS = {"koord-free": FREE, "koord-batch": BATCH, "koord-mid": MID, "koord-prod": PROD}
BANDS = ((3000, FREE), (5000, BATCH), (7000, MID), (9000, PROD))  # each of a thousand priorities
BY_QOS = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
BE, LS = 1, 2


def priority_class(pod: Pod) -> int:
    """By the label, the band of the priority, or the QoS class: best effort is batch, everything else prod."""
    if (labelled := BY_CLASS.get(pod.labels.get(CLASS_LABEL, ""))) is not None:
        return labelled
    banded = next((each for start, each in BANDS if start <= pod.priority < start + 1000), None)
    return banded if banded is not None else BATCH if qos_order(pod) == BE else PROD


def qos_order(pod: Pod) -> int:
    """By the label; without one, best effort for pods without requests, else latency sensitive."""
    labelled = BY_QOS.get(pod.labels.get(QOS_LABEL, ""))
    return labelled if labelled is not None else BE if qos_class(pod) == BEST_EFFORT else LS
