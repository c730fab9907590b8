"""Signals that ask a program to end."""

import signal

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def heeded_signals() -> list[int]:
    """Return those that are not ignored, as SIGHUP is under ``nohup``; SIGINT counts all the same."""
    return [
        number
        for number in ENDING_SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    ]
