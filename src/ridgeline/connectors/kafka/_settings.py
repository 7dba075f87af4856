"""The properties that inputs and outputs of Kafka share: where topics are, and the form of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field

from ridgeline.api.operator import Operator
from ridgeline.connect import secret_value
from ridgeline.connect.datasets import Dataset, kafka_datasets
from ridgeline.connectors.kafka._client import client_faults, found_servers
from ridgeline.operators.payloads import PayloadFormat, Registry


class RegistrySettings(NamedTuple):
    """Where schemas are registered."""

    url: str
    password: str
    certificates: str | None

    def client(self) -> Registry:
        """A client, with a memory of its own."""
        password = secret_value(self.password, "registry_password") if self.password else ""
        return Registry(self.url, password, self.certificates)


class AtKafka(Operator):
    """A mixin of inputs and outputs of Kafka."""

    servers: str | Sequence[str] = Field(default="", kw_only=True)
    format: PayloadFormat = Field(default="json", kw_only=True)
    message: Any = Field(default=None, kw_only=True)
    avro_schema: Any = Field(default=None, kw_only=True)
    registry: str | None = Field(default=None, kw_only=True)
    registry_password: str = Field(default="", kw_only=True)
    registry_certificates: str | None = Field(default=None, kw_only=True)
    options: dict[str, Any] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse options that cannot be, and servers that are not known."""
        return [*super().property_faults(), *client_faults(self.at, self.options)]

    def settle_properties(self) -> None:
        """Take the servers from the environment, if they are not given."""
        super().settle_properties()
        self.servers = self.at

    def datasets(self) -> list[Dataset]:
        """The topics, as `ridgeline.connect.datasets` names them."""
        return kafka_datasets(self.at, getattr(self, "topic", ""))

    @property
    def at(self) -> str:
        """The addresses of servers as the client takes them."""
        return found_servers(self.servers)

    @property
    def registry_settings(self) -> RegistrySettings | None:
        """Where schemas are registered, if they are."""
        if self.registry is None:
            return None
        return RegistrySettings(self.registry, self.registry_password, self.registry_certificates)
