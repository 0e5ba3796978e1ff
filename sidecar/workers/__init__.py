"""`run --workers N`: one supervisor, N workers.

    supervisor ── opens the traffic port, the admin port and the ledger; starts, restarts and stops
      │  │         the workers; answers /livez, /readyz and /metrics with what they say
      │  └── channel ── worker 0 ── the whole sidecar of app.py, at a port and on a ledger it was handed
      └───── channel ── worker 1 ── …

Owns: `supervisor.py` and its `child.py`, `ports.py`, `merging.py`, `admin.py` on one side, `worker.py` on the other,
`channel.py` between them.
Never: in the way of a call. A supervisor has no connection of a caller, and none to the ledger.

A supervisor that is gone closes its end of every channel, and the workers finish what is under way and end.
"""
