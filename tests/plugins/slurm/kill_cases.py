"""A policy that kills what runs at given times: what the tests of kills on a cluster share."""

from __future__ import annotations

from collections.abc import Sequence

from beasy_sched.engine.actions import Action, CallAt, Kill, Start
from beasy_sched.engine.policy import Options, Policy, View


class KillOptions(Options, frozen=True):
    times_s: tuple[float, ...]
    """Times of the kills, s."""


class KillsAt(Policy):
    """Starts jobs in order of arrival, and kills what runs at given times."""

    name = "kills-at"
    options_type = KillOptions
    options: KillOptions

    def begin(self, view: View) -> None:
        self._left_s = [*self.options.times_s]

    def schedule(self, view: View) -> Sequence[Action]:
        actions: list[Action] = []
        while self._left_s and view.now >= self._left_s[0] - 1e-6:
            del self._left_s[0]
            actions += [Kill(job, "test") for job in view.running.values()]
        free = view.free_mask()
        for waiting in view.queue:
            if free.sum() < waiting.res:
                break
            hosts = view.fastest(free, waiting.res)
            free[hosts.ids] = False
            actions.append(Start(waiting, hosts, "test"))
        if self._left_s:
            actions.append(CallAt(self._left_s[0]))
        return actions


POLICY = "plugins.slurm.kill_cases:KillsAt"
