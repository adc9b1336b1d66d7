"""Console of a running broker: its parts, built and started together."""

from __future__ import annotations

from collections.abc import Callable

from forebay.broker.console.access import Access
from forebay.broker.console.app import Console
from forebay.broker.console.facts import Facts
from forebay.broker.console.pages.page import PageSource
from forebay.broker.console.render import Renderer
from forebay.broker.console.sampler import Sampler
from forebay.broker.console.server import ConsoleServer
from forebay.broker.core.access.credentials import Credentials
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.resources.supervision import SupervisedWork, Supervisor
from forebay.broker.settings import BrokerSettings, address


class RunningConsole:
    """Console of one broker. Used on its loop."""

    def __init__(
        self,
        broker: Broker,
        connections: Connections,
        facts: Facts,
        settings: BrokerSettings,
        credentials: Callable[[], Credentials | None],
    ) -> None:
        """Bind its address. Raises ``OSError``."""
        host, port = address(settings.console_listen, name="console_listen")
        self._sampler = Sampler(broker, connections, facts)
        source = PageSource(
            broker,
            self._sampler,
            facts.endpoint,
            connections,
            facts.last_check,
            Access(credentials, host).admit,
            can_write=settings.console_write,
        )
        renderer = Renderer(
            facts.endpoint,
            can_write=settings.console_write,
            trace_url=settings.console_trace_url,
            spark_url=settings.console_spark_url,
        )
        self._console = Console(source, renderer)
        self._server = ConsoleServer(
            self._console.application(),
            host,
            port,
            cert_file=settings.tls_server_cert_file,
            key_file=settings.tls_server_key_file,
        )
        self.url = f"{self._server.scheme}://{host}:{self._server.port}/"
        self._work: SupervisedWork | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Serve, and sample."""
        supervisor.repeat("console", self._sampler.period_s, self._sampler.sample)
        self._work = supervisor.keep_running("console server", self._server.run)

    def renew(self) -> None:
        """Load certificate and key again, for later connections. Raises ``OSError`` if they cannot be used."""
        self._server.renew()

    async def stop(self) -> None:
        """End the open pages, then the server."""
        self._console.end()
        if self._work is not None:
            await self._server.stop()
            await self._work.stop()
