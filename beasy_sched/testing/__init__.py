"""Tests of policies, for their authors: many small random data centres, and invariants for each.

    from beasy_sched.testing import check_policy
    from my_policies import Widest


    def test_widest():
        check_policy(Widest, runs=100)

The project tests its own policies in this way. Only the project itself is required; policies that follow a
plan require the extra `plan` (in a clone: ``pip install '.[plan]'``), which makes the plans.
"""

from beasy_sched.testing.checking import PolicyCheck, PolicyCheckFailed, check_policy
from beasy_sched.testing.witness import BrokenInvariant

__all__ = ["BrokenInvariant", "PolicyCheck", "PolicyCheckFailed", "check_policy"]
