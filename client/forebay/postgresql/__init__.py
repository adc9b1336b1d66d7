"""Connections to PostgreSQL, for saved positions and for deliveries. Needs psycopg."""

from __future__ import annotations

from forebay.postgresql.connection import (
    PASSWORD_VARIABLE,
    TABLE_NAME,
    USER_VARIABLE,
    DatabaseAddress,
    TimedConnection,
    connect,
    is_refused,
    table_of,
)

__all__ = [
    "PASSWORD_VARIABLE",
    "TABLE_NAME",
    "USER_VARIABLE",
    "DatabaseAddress",
    "TimedConnection",
    "connect",
    "is_refused",
    "table_of",
]
