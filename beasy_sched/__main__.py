"""The program: ``beasy-sched``, and ``python -m beasy_sched``."""

import atexit
import os
import signal

from beasy_sched.signals import termination_signals

# Import as little as possible until the signal handlers are installed.


def main() -> None:
    """Load the command line and run it. A signal during loading ends the program as a later one does.

    After the command has ended, a signal has no effect, except that a further SIGINT exits at once.
    """
    waited_for = termination_signals()
    for number in waited_for:
        signal.signal(number, _stop)
    atexit.register(_ignore, waited_for)  # the first to be registered is the last to be called
    code = 1
    try:
        from beasy_sched.cli import main as run

        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        came: list[int] = []

        def late(number: int, _: object) -> None:
            if came and number == signal.SIGINT:
                os._exit(code)
            came.append(number)

        for number in waited_for:
            signal.signal(number, late)


def _stop(number: int, _: object) -> None:
    """Exit at once: there is nothing to write or remove yet."""
    os.write(2, f"beasy-sched: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(1)


def _ignore(numbers: list[int]) -> None:
    """Ignore signals during interpreter shutdown, when their handlers can no longer be called."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
