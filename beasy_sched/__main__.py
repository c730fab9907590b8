"""``python -m beasy_sched`` is ``beasy-sched``."""

from beasy_sched.cli import main

main()
