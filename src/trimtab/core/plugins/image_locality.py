"""ImageLocality: likes nodes that already hold the pod's images, less so for images that few nodes hold."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import MAX_SCORE, Ints, Normalise, Rows

SMALLEST = 23 * 1024 * 1024
LARGEST_EACH = 1000 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """Bytes of images at hand, each scaled by the share of nodes that hold it, between 23 MiB and 1000 MiB a container."""

    name: ClassVar[str] = "ImageLocality"
    woken_by: ClassVar[Change] = Change.NOTHING
    reads: ClassVar[Change] = Change.IMAGES
    normalise: ClassVar[Normalise] = Normalise.NONE

    def signs(self, pod: Pod) -> Hashable:
        return pod.spec.images

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        total = np.zeros(view.count, dtype=np.int64)
        for image in pod.spec.images:
            held_by, sizes = view.image_sizes(tagged(image))
            if len(held_by):
                total[held_by] += (sizes * (len(held_by) / view.count)).astype(np.int64)
        largest = LARGEST_EACH * len(pod.spec.images)
        held = np.minimum(np.maximum(total, SMALLEST), max(largest, SMALLEST))
        return ((held - SMALLEST) * MAX_SCORE // (largest - SMALLEST))[rows]


def tagged(image: str) -> str:
    """The name under which nodes report the image: without a tag it is the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
