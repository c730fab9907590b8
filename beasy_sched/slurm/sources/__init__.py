"""Where a live run reads what is produced now: a file that grows, a program that prints, or Prometheus.

Nothing here waits: files and pipes are read without blocking, and Prometheus is asked in a thread. Nothing
that happens during a run raises: a source that cannot be read says so once, in its ``notes``, and goes on
trying. A `watcher.Watcher` says what counts while a source is silent.
"""
