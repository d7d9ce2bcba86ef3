"""The whole demo by seed, cut into its scenes, for whoever looks at what happens in one of them."""

from __future__ import annotations

from functools import cache

from trimtab.apps.demo import Decided, Demo, Ended, Marked, Moment, Opened, Passed
from trimtab.sim.heat import HEAT
from trimtab.sim.picture import Picture

ACT_TWO = len(HEAT.scenes)


class Scene:
    """What was shown between one opening and the next."""

    def __init__(self) -> None:
        self.decided: list[Decided] = []
        self.marked: list[Marked] = []
        self.pictures: list[Picture] = []


@cache
def story(seed: int = 1) -> tuple[list[Scene], Ended]:
    scenes: list[Scene] = []
    moment: Moment | None = None
    for moment in Demo(seed).moments():
        match moment:
            case Opened():
                scenes.append(Scene())
            case Decided():
                scenes[-1].decided.append(moment)
            case Marked():
                scenes[-1].marked.append(moment)
            case Passed():
                scenes[-1].pictures.append(moment.picture)
    assert isinstance(moment, Ended)
    return scenes, moment


def heat(seed: int = 1) -> list[Scene]:
    return story(seed)[0][:ACT_TWO]


def day(seed: int = 1) -> list[Scene]:
    return story(seed)[0][ACT_TWO:]
