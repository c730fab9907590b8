"""How a session deals with the simulator, and on what site."""

from __future__ import annotations

from dataclasses import dataclass

from beasy_sched.energy.site import Site
from beasy_sched.model.platform import Platform
from beasy_sched.plan.store import PlanStore
from beasy_sched.session.power import EnergySource


@dataclass(frozen=True)
class SessionOptions:
    """What a session is told once, at its beginning."""

    site: Site | None = None
    """Storage, steps and guard; None leaves power out of account."""
    plans: PlanStore | None = None
    """Offline plans of the site, by window: the hydrogen follows them, results show them."""
    windows: int = 1
    """How many windows of the site's length the run has; it ends with the last."""
    energy: EnergySource = EnergySource.BATSIM
    """Whether the energy used comes from the simulator's answers or from the daemon's own account."""
    power_actions: bool = True
    """Whether P-states may be changed and energy asked for; Batsim needs ``-E`` for both.

    Without them, energy comes from the daemon's own account whatever ``energy`` says.
    """
    platform: Platform | None = None
    """Speeds and powers by host name, where the simulator's properties do not tell them."""
    inputs_checked: bool = False
    """Whether all inputs were looked at before the run (`preflight`); otherwise the session looks at what it
    gets to see of them, and warns."""
