"""ImageLocality: prefers nodes that already have the pod's images, scaled down for images that few nodes have."""

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
    """Bytes of present images, each times the fraction of nodes that have it, from 23 MiB to 1000 MiB per container."""

    name: ClassVar[str] = "ImageLocality"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.IMAGES
    normalise: ClassVar[Normalise] = Normalise.NONE

    def signature(self, pod: Pod) -> Hashable:
        return pod.spec.images

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        total = np.zeros(view.count, dtype=np.int64)
        for image in pod.spec.images:
            rows_with_image, sizes = view.image_sizes(normalised_image_name(image))
            if len(rows_with_image):
                total[rows_with_image] += (sizes * (len(rows_with_image) / view.count)).astype(np.int64)
        max_threshold = MAX_CONTAINER_THRESHOLD * len(pod.spec.images)
        clamped = np.minimum(np.maximum(total, MIN_THRESHOLD), max(max_threshold, MIN_THRESHOLD))
        return ((clamped - MIN_THRESHOLD) * MAX_SCORE // (max_threshold - MIN_THRESHOLD))[rows]


def normalised_image_name(image: str) -> str:
    """The name under which nodes report the image: without a tag it is `latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
