"""Policies that go wrong, each in its own way."""

from __future__ import annotations

import os
import signal
import sys
import time

from beasy_sched.policies.easy import Easy


class Raises(Easy):
    """Raises an exception in the middle of a run."""

    name = "raises"

    def schedule(self, view):
        if view.now > 3600:
            raise ZeroDivisionError("an hour is enough")
        return super().schedule(view)


class Dies(Easy):
    """Takes its process with it, as a crash in native code would."""

    name = "dies"

    def schedule(self, view):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Easy):
    """Never decides."""

    name = "hangs"

    def schedule(self, view):
        while True:
            time.sleep(1)


class Leaves(Easy):
    """Leaves without a word."""

    name = "leaves"

    def schedule(self, view):
        os._exit(3)


class Exits(Easy):
    """Ends the program as if all were well."""

    name = "exits"

    def schedule(self, view):
        sys.exit(0)
