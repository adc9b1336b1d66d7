"""Addresses of brokers as users type them, with what every part makes of them: client, commands and Spark."""

from __future__ import annotations

from typing import Final

ACCEPTED: Final = {
    "one": ("one:7461",),
    " one:1 , two ": ("one:1", "two:7461"),
    "one,one:7461": ("one:7461",),
    "ipv4:10.0.0.1:1,10.0.0.2,three:3": ("ipv4:10.0.0.1:1,10.0.0.2:7461", "three:3"),
    "forebay://one": ("forebay://one:7461",),
    "forebay://one,two:2": ("forebay://one:7461,two:2",),
    " forebay://one, two:2/ ": ("forebay://one:7461,two:2",),
    "forebay://one/": ("forebay://one:7461",),
    "forebay://ipv4:10.0.0.1:1,10.0.0.2:2,three": ("forebay://ipv4:10.0.0.1:1,10.0.0.2:2,three:7461",),
}
"""Endpoints by the text that names them."""

REFUSED: Final = (
    "one,",
    "one,,two",
    ",one",
    "one/",
    "one,forebay://two",
    "forebay://",
    "forebay:///",
    "forebay://one,,two",
    "forebay://one,two,",
    "forebay://one,forebay://two",
    "forebay://one/two",
    "http://one:7461",
    "some where",
    "one:",
    "one:0",
    ":7461",
)
"""Texts that name no broker."""
