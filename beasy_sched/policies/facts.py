"""The numbers behind starts and postponements, gathered the same way for every policy.

All of them are at hand where they are asked for: none takes more than constant time.
"""

from __future__ import annotations

import math
from typing import Final

from beasy_sched.model.job import Job, bounded_slowdown
from beasy_sched.policies.orders import Order, largest_slowdown, smallest_size
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S

FactDict = dict[str, float | int | str]

HEAD: Final = "head of the queue"
BACKFILLED: Final = "backfilled"
SLEEPERS_PAY: Final = "; idle servers sleep for it"
"""Added to the two above where BEASY lets idle servers sleep, so that the job can be paid for."""
RESERVED: Final = "reserved"
"""Not enough hosts are free; enough will be at a time that is known."""
NOT_RESERVED: Final = "no reservation"
"""Not enough hosts are free, and when enough will be is not known."""
NO_STEP_ENERGY: Final = "no energy in this step"
"""The guard's veto: what is left of the step's energy does not suffice."""
PLAN_CANNOT_PAY: Final = "plan cannot pay"
"""The energy test of BEASY fails."""
SET_ASIDE: Final = "ends after the last window"


def head_facts(view: View, job: Job, free: int, order: Order) -> FactDict:
    """Why a job was the first of the queue: how long it waited, and by what it was ranked.

    ``free`` hosts were free before it started.
    """
    wait_s = view.now - job.subtime_s
    facts: FactDict = {"hosts_free": free, "waited_s": wait_s}
    finite = math.isfinite(job.walltime_s)
    if order is largest_slowdown:
        facts["slowdown"] = bounded_slowdown(wait_s, job.walltime_s) if finite else 1.0
    elif order is smallest_size and finite:
        facts["size_host_s"] = job.size
    return facts


def filler_facts(
    view: View, job: Job, free: int, reserved: Job, reserved_s: float, extra: int | None = None
) -> FactDict:
    """Why a job may go before the ``reserved`` one: it ends in time, or leaves it the hosts that it needs.

    ``free`` hosts were free before it started; the reservation is for ``reserved_s``, infinite where
    there is none. Beside the reserved job, ``extra`` hosts will be free then; without ``extra`` the
    reservation is for certain hosts, which the job leaves alone.
    """
    facts: FactDict = {"hosts_free": free, "waited_s": view.now - job.subtime_s, "reserved_for": reserved.id}
    if math.isfinite(reserved_s):
        if reserved_s > view.now:
            facts["reserved_at_s"] = reserved_s
        else:
            facts["reserved_lacks"] = "energy"
        if view.now + job.walltime_s <= reserved_s + TIME_TOLERANCE_S:
            facts["ends_by_s"] = view.now + job.walltime_s
        elif extra is None:
            facts["hosts_left_alone"] = reserved.res
        else:
            facts["hosts_extra"] = extra
    return facts


def reservation_rule(reserved_s: float) -> str:
    """The rule by which the first job that lacks hosts waits, with a reservation or without one."""
    return RESERVED if math.isfinite(reserved_s) else NOT_RESERVED


def reservation_facts(job: Job, free: int, reserved_s: float) -> FactDict:
    """What a job lacks, and when it is promised that: nothing of the latter if never."""
    facts: FactDict = {"hosts_asked": job.res, "hosts_free": free}
    if math.isfinite(reserved_s):
        facts["reserved_at_s"] = reserved_s
    return facts
