"""Listeners of Kafka with TLS, and the files of settings of their clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.certificates import Authority, Pair
from tests.support.stores.kafka import SecureListener

LOGIN: Final = "SECURE"
"""Listener with TLS and a login, which is repeated every ``REAUTHENTICATION_MS`` over the same connection."""
TLS: Final = "TLS"
"""Listener with TLS alone."""
MUTUAL: Final = "MUTUAL"
"""Listener that demands a certificate of its clients."""
OTHER: Final = "OTHER"
"""Listener whose certificate is that of another host."""
EXPIRED: Final = "EXPIRED"
"""Listener whose certificate has expired."""
REAUTHENTICATION_MS: Final = 3_000


def secure_listeners(authority: Authority, users: Mapping[str, str]) -> dict[str, SecureListener]:
    """Return one listener of each kind; ``users`` are the passwords of those that log in with PLAIN."""
    host, pairs = authority.signed("node"), [f'user_{name}="{password}"' for name, password in users.items()]
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    login = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        "plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {' '.join(pairs)};"
        ),
        "scram-sha-256.sasl.jaas.config": scram,
    }
    asks = {"ssl.client.auth": "required", **_trust(authority)}
    return {
        LOGIN: SecureListener("SASL_SSL", {**_certificate(host), **login}),
        TLS: SecureListener("SSL", _certificate(host)),
        MUTUAL: SecureListener("SSL", {**_certificate(host), **asks}),
        OTHER: SecureListener("SSL", _certificate(authority.signed("other", alternatives="DNS:kafka.example"))),
        EXPIRED: SecureListener("SSL", _certificate(authority.expiring("expired"))),
    }


def _certificate(pair: Pair) -> dict[str, str]:
    both = pair.cert.with_suffix(".both.pem")
    both.write_text(pair.key.read_text() + pair.cert.read_text())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}


def _trust(authority: Authority) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.cert)}


def settings_file(path: Path, **settings: str | Path) -> Path:
    """Write settings of a client, whose names have underscores instead of dots."""
    path.write_text("".join(f"{name.replace('_', '.')} = {value}\n" for name, value in settings.items()))
    return path


def secure_login(
    path: Path, authority: Authority, user: str, password: str, mechanism: str = "PLAIN", **settings: str | Path
) -> Path:
    """Write the settings of a client that logs in over TLS."""
    return settings_file(
        path,
        security_protocol="SASL_SSL",
        sasl_mechanisms=mechanism,
        sasl_username=user,
        sasl_password=password,
        ssl_ca_location=authority.cert,
        **settings,
    )
