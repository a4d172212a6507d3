"""The service and the explorer: a run's answers over HTTP, and a page to look around in it.

Thin: a route reads and bounds its arguments, calls one function of :mod:`relcode.explore`, and sends the record that ``--json`` prints. These modules
need FastAPI; only the commands that start a server import them.
"""
