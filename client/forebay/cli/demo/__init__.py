"""The demo: a Spark job whose remote system goes away while the broker is killed, and a reconciliation
afterwards.

Every part is a process of its own, as it would be on a real site; this package starts, breaks and compares
them.
"""

from __future__ import annotations
