"""pybatsim's example schedulers, for the tests that run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pybatsim_examples import NoExamples, examples_folder


@pytest.fixture(scope="session")
def examples(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples, downloaded once and kept in pytest's cache, if it has one."""
    cache = getattr(pytestconfig, "cache", None)
    keep = cache.mkdir("pybatsim-examples") if cache else tmp_path_factory.mktemp("pybatsim-examples")
    try:
        return examples_folder(keep)
    except NoExamples as error:
        pytest.skip(str(error))
