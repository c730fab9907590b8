"""Termination signals."""

import signal

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def termination_signals() -> list[int]:
    """Return the termination signals that are not ignored (as SIGHUP is under ``nohup``), with SIGINT."""
    return [
        number
        for number in ENDING_SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    ]
