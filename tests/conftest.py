"""Settings for all tests."""

import signal

from hypothesis import settings

# An example may take long on a busy machine; pytest's own time limit holds for the test as a whole.
settings.register_profile("project", deadline=None)
settings.register_profile("few", deadline=None, max_examples=10)
settings.load_profile("project")

# Children inherit what is ignored: under nohup, or in a shell's background, no signal would reach them.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
