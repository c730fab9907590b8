"""Tests of policies, for their authors: many small random data centres, and what must hold in each.

    from beasy_sched.testing import check_policy
    from my_policies import Widest


    def test_widest():
        check_policy(Widest, runs=100)

The project tests its own policies in this way. Nothing but the project itself is required; policies that
follow a plan need the extra `plan` (in a clone: ``pip install '.[plan]'``), with which the plans are made.
"""

from beasy_sched.testing.checking import PolicyCheck, PolicyCheckFailed, check_policy
from beasy_sched.testing.witness import BrokenInvariant

__all__ = ["BrokenInvariant", "PolicyCheck", "PolicyCheckFailed", "check_policy"]
