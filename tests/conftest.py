"""Settings for all tests."""

import os
import signal
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings
from long_first import long_first

from beasy_sched.plugin import own_plugins

# An example may take long on a busy machine; pytest's own time limit holds for the test as a whole.
settings.register_profile("project", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("few", deadline=None, max_examples=10)
settings.load_profile("project" if os.environ.get("CI") else "quick")

# Children inherit what is ignored: under nohup, or in a shell's background, no signal would reach them.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark all but the first cases of sampled tests as slow, and skip tests of missing plug-ins.

    Then order those that were selected.
    """
    cases: Counter[str] = Counter()
    for item in items:
        needed = {name for marker in item.iter_markers("plugins") for name in marker.args}
        if missing := needed - {plugin.name for plugin in own_plugins()}:
            item.add_marker(pytest.mark.skip(reason=f"without plug-in {', '.join(sorted(missing))}"))
        if sampled := item.get_closest_marker("sampled"):
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > (sampled.args[0] if sampled.args else 1):
                item.add_marker(pytest.mark.slow)
    yield
    items[:] = long_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
