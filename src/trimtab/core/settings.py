"""The settings of the engine and its controllers as one value; `SettingsRead` brings a new one."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.framework.profile import Profile
from trimtab.core.load.pressure_rules import LabellingSettings
from trimtab.core.load.settings import LoadSettings
from trimtab.core.rescheduling.settings import GUARDED_KINDS, ReschedulingSettings

DEFAULT_LOAD = LoadSettings()
# kube-scheduler's defaults of the scheduling queue, in seconds
INITIAL_BACKOFF, MAX_BACKOFF, MAX_UNSCHEDULABLE_WAIT = 1.0, 10.0, 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Scheduling profiles with the queue's and the binding cycle's limits, trust in load, the labeller's rules, and the
    rescheduler's settings.

    A process without profiles schedules no pods; one without `labels` labels none, and one without `rescheduling` moves
    none. Without profiles and `rescheduling` it watches nodes alone. `other_profiles` are those of other
    schedulers in the cluster: moves of their pods are rehearsed with them.
    """

    profiles: tuple[Profile, ...]
    initial_backoff: float = INITIAL_BACKOFF
    max_backoff: float = MAX_BACKOFF
    max_unschedulable_wait: float = MAX_UNSCHEDULABLE_WAIT
    max_binds_in_flight: int = 64
    load: LoadSettings = DEFAULT_LOAD
    bind_timeout: float = 30.0  # after which an unanswered or unconfirmed bind is read back
    labels: LabellingSettings | None = None
    rescheduling: ReschedulingSettings | None = None
    other_profiles: tuple[Profile, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that must be synced before the first decision: pods, nodes, and what plugins and guards need."""
        guarded = () if self.rescheduling is None else GUARDED_KINDS
        if not self.profiles and not guarded:
            return ("nodes",)
        needed = (kind for profile in (*self.profiles, *self.other_profiles) for kind in profile.needed_kinds)
        return ("pods", "nodes", *dict.fromkeys((*needed, *guarded)))

    def profile_of(self, scheduler: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == scheduler), None)

    def any_profile_of(self, scheduler: str) -> Profile | None:
        """Also that of another scheduler in the cluster."""
        others = (profile for profile in self.other_profiles if profile.name == scheduler)
        return self.profile_of(scheduler) or next(others, None)

    @property
    def other_schedulers(self) -> frozenset[str]:
        return frozenset(profile.name for profile in self.other_profiles)
