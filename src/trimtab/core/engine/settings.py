"""The engine's settings as one value, which arrives as an event; where they come from is left to `config`."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.load.pressure_rules import Labelling
from trimtab.core.load.settings import LoadSettings
from trimtab.core.placing.profile import Profile

BELIEVED = LoadSettings()


@dataclass(frozen=True, slots=True)
class Settings:
    """Profiles by scheduler name, the queue's patience, and how many binds may be under way at once."""

    profiles: tuple[Profile, ...]
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    longest_wait: float = 60.0
    binds_in_flight: int = 64
    load: LoadSettings = BELIEVED
    bind_patience: float = 30.0  # seconds after which an unanswered or unconfirmed bind is asked about again
    labels: Labelling | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """What must be Synced before the first decision: pods, nodes, and what some plugin of a profile looks at.

        Who places no pods need not know of any.
        """
        if not self.profiles:
            return ("nodes",)
        return ("pods", "nodes", *dict.fromkeys(kind for profile in self.profiles for kind in profile.watches))

    def profile_of(self, scheduler: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == scheduler), None)
