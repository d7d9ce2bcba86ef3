"""How images that nodes already have are scored."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import scores
from trimtab.core.plugins.image_locality import ImageLocality, normalised_image_name


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (["app"], {"both": 7, "app": 7, "none": 0}),
        (["app", "huge"], {"both": 52, "app": 3, "none": 0}),
        (["small"], {"both": 0, "app": 0, "none": 0}),
        (["app", "app"], {"both": 8, "app": 8, "none": 0}),
        (["unknown"], {"both": 0, "app": 0, "none": 0}),
        ([], {"both": 0, "app": 0, "none": 0}),
    ],
)
def test_score(images: list[str], expected: dict[str, int]) -> None:
    """Sizes count by the share of nodes that hold the image, between 23 MiB and 1000 MiB a container."""
    seen = [
        node("both", images={"app:latest": 150, "huge:latest": 2900, "small:latest": 20}),
        node("app", images={"app:latest": 150}),
        node("none"),
    ]
    assert expected == scores(ImageLocality(), pod("web", images=images), *seen)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("app", "app:latest"),
        ("app:v1", "app:v1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:v1", "registry:5000/app:v1"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_tag(image: str, expected: str) -> None:
    """An image without a tag is the latest; a colon before the last slash is a port, not a tag."""
    assert expected == normalised_image_name(image)
