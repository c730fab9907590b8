"""The program: ``beasy-sched``, and ``python -m beasy_sched``."""

import os
import signal
from types import FrameType

from beasy_sched.errors import ENDING_SIGNALS


def main() -> None:
    """Load the command line and run it. A signal while it is loaded ends it as one that comes later does."""
    before = {}
    for number in ENDING_SIGNALS:
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _stop)
    try:
        from beasy_sched.cli import main as run

        run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> None:
    """End at once: there is nothing yet that would have to be written or removed."""
    os.write(2, f"beasy-sched: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(1)


if __name__ == "__main__":
    main()
