"""A broker with users, rights and TLS: a listener for each way to connect, with certificates of our own."""

import ipaddress
from datetime import UTC, datetime, timedelta

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.services import Kafka

PASSWORD = "hunter2-" + "s3cret"
SECONDS = 60
_JAAS = "org.apache.kafka.common.security"
_LISTENERS = {"SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL", "TLS": "SSL", "EXPIRED": "SSL"}
"""Each listener's protocol: a user, a user over TLS, a client's certificate, a broker's that has expired."""


class Authority:
    """Signs certificates."""

    def __init__(self, name):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._signed(self._name, self._key, days=1, authority=True)

    def _signed(self, name, key, *, days, authority=False):
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def certificate(self, name, *, days=1):
        """A certificate for 127.0.0.1 that ends in so many days, and its key, as one text in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        form = serialization.PrivateFormat.PKCS8
        text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
        return text + self._signed(subject, key, days=days)


class SecureKafka(Kafka):
    """Users `shop` (all rights) and `guest` (none), both with `PASSWORD`; connections past the proxy.

    `shop` is also a user of SCRAM, and the name in the client's certificate. Plain connections have all
    rights.
    """

    INNER_PORTS = (*Kafka.INNER_PORTS, *_LISTENERS)

    def address(self, listener):
        """The address of a listener."""
        return f"127.0.0.1:{self._port(listener)}"

    def path(self, name):
        """The path of a file with certificates: `ca`, `other-ca`, `client`, `broker`, `expired`."""
        return str(self.folder / f"{name}.pem")

    def _prepare(self):
        ours, other = Authority("ours"), Authority("another")
        texts = {
            "ca": ours.pem,
            "other-ca": other.pem,
            "client": ours.certificate("shop"),
            "broker": ours.certificate("broker"),
            "expired": ours.certificate("broker", days=-1),
        }
        for name, text in texts.items():
            (self.folder / f"{name}.pem").write_text(text)
        self._settings = self._secured()
        super()._prepare()

    def _secured(self):
        """The settings of all listeners."""
        plain = {"PROXIED": self._direct["main"], "DIRECT": self._port("direct")}
        inner = {name: self._port(name) for name in _LISTENERS}
        bound = {**plain, "CONTROLLER": self._port("controller"), **inner}
        shown = {"PROXIED": self._public["main"], "DIRECT": plain["DIRECT"], **inner}
        protocols = {**dict.fromkeys((*plain, "CONTROLLER"), "PLAINTEXT"), **_LISTENERS}
        users = f'user_shop="{PASSWORD}" user_guest="{PASSWORD}"'
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in bound.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in shown.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:shop;User:CN=shop",
            "listener.name.tls.ssl.client.auth": "required",
        }
        for name in ("sasl", "both"):
            listener = f"listener.name.{name}"
            settings |= {
                f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
                f"{listener}.oauthbearer.sasl.jaas.config": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule "
                'required unsecuredLoginStringClaim_sub="nobody";',
                f"{listener}.plain.sasl.jaas.config": f"{_JAAS}.plain.PlainLoginModule required {users};",
                f"{listener}.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
            }
        for name, file in {"both": "broker", "tls": "broker", "expired": "expired"}.items():
            settings |= {
                f"listener.name.{name}.ssl.keystore.type": "PEM",
                f"listener.name.{name}.ssl.keystore.location": self.path(file),
                f"listener.name.{name}.ssl.truststore.type": "PEM",
                f"listener.name.{name}.ssl.truststore.location": self.path("ca"),
            }
        return settings

    def add_scram_user(self):
        """Give `shop` a password for SCRAM."""
        admin = AdminClient({"bootstrap.servers": self.direct_servers, "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("shop", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])["shop"].result(SECONDS)
