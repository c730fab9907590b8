"""Settings for all tests."""

from hypothesis import settings

# An example may take long on a busy machine; pytest's own time limit holds for the test as a whole.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
