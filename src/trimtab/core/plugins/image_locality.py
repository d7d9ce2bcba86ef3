"""ImageLocality: likes nodes that already hold the pod's images, less so for images that few nodes hold."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod

MIN_THRESHOLD = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD = 1000 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImageLocality:
    """Bytes of images at hand, each scaled by the share of nodes that hold it, between 23 MiB and 1000 MiB a container."""

    name: ClassVar[str] = "ImageLocality"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.IMAGES
    normalise: ClassVar[Normalise] = Normalise.NONE

    def signature(self, pod: Pod) -> Hashable:
        return pod.spec.images

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        total = np.zeros(view.count, dtype=np.int64)
        for image in pod.spec.images:
            held_by, sizes = view.image_sizes(normalised_image_name(image))
            if len(held_by):
                total[held_by] += (sizes * (len(held_by) / view.count)).astype(np.int64)
        largest = MAX_CONTAINER_THRESHOLD * len(pod.spec.images)
        held = np.minimum(np.maximum(total, MIN_THRESHOLD), max(largest, MIN_THRESHOLD))
        return ((held - MIN_THRESHOLD) * MAX_SCORE // (largest - MIN_THRESHOLD))[rows]


def normalised_image_name(image: str) -> str:
    """The name under which nodes report the image: without a tag it is the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
