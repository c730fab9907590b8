"""pybatsim's example schedulers, for the tests that run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pybatsim_examples import NoExamples, examples_folder


@pytest.fixture(scope="session")
def examples(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    try:
        return examples_folder(pytestconfig.cache.mkdir("pybatsim-examples"))
    except NoExamples as error:
        pytest.skip(str(error))
