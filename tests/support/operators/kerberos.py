"""A Kerberos server on this machine (Apache Kerby, by Hadoop's MiniKdc), and an HDFS that asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from support.accounts.reports import Command
from support.jars import class_path
from support.ports import free_port
from support.waiting import wait_until

REALM = "EXAMPLE.COM"
USER = "shop"


class Kdc:
    """A server with principals `hdfs/localhost`, `HTTP/localhost` and `shop`, whose keys are in `keytab`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keytab = folder, folder / "keys.keytab"
        self._jars = class_path("kdc")

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        settings = self.folder / "kdc.properties"
        given = {"kdc.port": free_port(), "kdc.bind.address": "127.0.0.1", "debug": "false"}
        settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        log = self.folder / "kdc.log"
        words = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", self._jars]
        words += ["org.apache.hadoop.minikdc.MiniKdc", self.folder / "work", settings, self.keytab]
        (self.folder / "work").mkdir()
        with log.open("wb") as out:
            principals = ["hdfs/localhost", "HTTP/localhost", USER]
            self.process = Command([*words, *principals], log=log, cwd=self.folder, stdout=out, stderr=out)

        def is_up() -> bool:
            assert self.process.poll() is None, log.read_text(errors="replace")[-3000:]
            return self.keytab.exists() and bool(list(self.folder.rglob("krb5.conf")))

        wait_until(is_up, "the Kerberos server")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.clean()

    @property
    def options(self) -> tuple[str, ...]:
        """Of Java processes that are to ask it."""
        [conf] = self.folder.rglob("krb5.conf")
        return (f"-Djava.security.krb5.conf={conf}",)

    @property
    def settings(self) -> dict[str, object]:
        """Of an HDFS that wants to know its users."""
        found: dict[str, object] = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            "ignore.secure.ports.for.testing": "true",
            "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
            "dfs.web.authentication.kerberos.keytab": self.keytab,
        }
        for node in ("namenode", "datanode"):
            found[f"dfs.{node}.kerberos.principal"] = f"hdfs/localhost@{REALM}"
            found[f"dfs.{node}.keytab.file"] = self.keytab
        return found

    @property
    def user(self) -> dict[str, str]:
        """The environment of a process that is the user `shop`."""
        return {"KRB5PRINCIPAL": f"{USER}@{REALM}", "KRB5KEYTAB": str(self.keytab)}
