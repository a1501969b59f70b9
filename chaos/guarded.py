"""A broker with an authorizer, under which nobody but the administrator has a right that was not granted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from chaos.acls import USERS
from chaos.fleet import environment
from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.java import find_java
from ragweir.streams.playground.local.kafka import LocalKafka
from ragweir.streams.playground.local.node import KAFKA_VERSION, LOOPBACK, Node, free_ports

PREFIX = "rag."
_SECRET = "a password of nobody"  # noqa: S105 (of a broker that lives for a minute, on loopback)
_MECHANISM = "SCRAM-SHA-512"
_CALL_S = 30.0


class Guarded:
    """A broker with three listeners: plain for the administrator, with TLS, and with TLS and SASL/SCRAM for users."""

    def __init__(
        self, folder: Path, version: str = KAFKA_VERSION, properties: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._folder, self._version, self._more = folder, version, properties
        self._plain, self._tls, self._users, self._controller = free_ports(4)
        self.plain = f"{LOOPBACK}:{self._plain}"
        """Address of the plain listener."""

    def _properties(self, store: Path) -> dict[str, str]:
        listeners = f"PLAINTEXT://{self.plain},TLS://{LOOPBACK}:{self._tls},USERS://{LOOPBACK}:{self._users}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{self._controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,USERS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": _MECHANISM,
            f"listener.name.users.{_MECHANISM.lower()}.sasl.jaas.config": f"{login} required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": _SECRET,
            "ssl.key.password": _SECRET,
            **self._more,
        }

    @contextmanager
    def running(self) -> Iterator[AdminClient]:
        """Run it for the length of a `with` block, with the users of the ACLs, whose passwords are their names.

        Raises:
            LocalServerError: if this Kafka cannot be downloaded or started.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        node = Node(self._plain, self._controller, self._properties(self._key_store()))
        runner = JarRunner(node, self._folder / "kafka", lambda _: None, version=self._version)
        try:
            LocalKafka(node, runner).start()
            admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            users = [UserScramCredentialUpsertion(f"ragweir-{user}", scram, user.encode()) for user in USERS]
            for future in admin.alter_user_scram_credentials(users).values():  # type: ignore[arg-type]
                future.result(_CALL_S)
            yield admin
        finally:
            runner.discard()

    def _key_store(self) -> Path:
        keytool = shutil.which("keytool", path=str(Path(find_java()[0]).parent))
        if keytool is None:
            raise LocalServerError("keytool is not beside Java: a Java without it cannot make certificates.")
        store = self._folder / "store.p12"
        options = ("-keystore", str(store), "-storepass", _SECRET, "-alias", "broker")
        generate = ("-genkeypair", *options, "-storetype", "PKCS12", "-keyalg", "RSA", "-dname", f"CN={LOOPBACK}")
        subprocess.run([keytool, *generate, "-ext", f"san=ip:{LOOPBACK}"], check=True, capture_output=True)
        exported = subprocess.run([keytool, "-exportcert", "-rfc", *options], check=True, capture_output=True)
        (self._folder / "ca.pem").write_bytes(exported.stdout)
        return store

    def as_administrator(self, *, tls: bool = False, ca: bool = True) -> dict[str, str]:
        """Return settings of the plain listener, or of that with TLS, with or without its authority's certificate."""
        client = {"security.protocol": "SSL"} | (self._ca() if ca else {})
        return self._settings(self._tls if tls else self._plain, client if tls else {})

    def as_user(self, user: str, password: str = "") -> dict[str, str]:
        """Return settings of a user; the password is the user's own unless another is given."""
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": f"ragweir-{user}",
            "sasl.password": password or user,
        }
        return self._settings(self._users, client | self._ca())

    def _ca(self) -> dict[str, str]:
        return {"ssl.ca.location": str(self._folder / "ca.pem")}

    @staticmethod
    def _settings(port: int, client: Mapping[str, str]) -> dict[str, str]:
        return environment(f"{LOOPBACK}:{port}", PREFIX, client, topics__partitions=2)
