"""Connections to PostgreSQL, for saved positions and for deliveries. Needs psycopg."""

from __future__ import annotations

from forebay.postgresql.connection import (
    DURABLE,
    PASSWORD_VARIABLE,
    SSL_MODES,
    TABLE_NAME,
    USER_VARIABLE,
    DatabaseAddress,
    TimedConnection,
    connect,
    host_of,
    is_of_session,
    is_refused,
    table_of,
)

__all__ = [
    "DURABLE",
    "PASSWORD_VARIABLE",
    "SSL_MODES",
    "TABLE_NAME",
    "USER_VARIABLE",
    "DatabaseAddress",
    "TimedConnection",
    "connect",
    "host_of",
    "is_of_session",
    "is_refused",
    "table_of",
]
