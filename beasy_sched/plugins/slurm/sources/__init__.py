"""Sources of measurements of a live run: a growing file, the output of a program, or Prometheus.

No call blocks: files and pipes are read without waiting, and Prometheus is queried in a thread. No error
during a run is raised: a source that cannot be read reports it once, in its ``notes``, and continues to
try. A `watcher.Watcher` determines the value to use while a source is silent.
"""
