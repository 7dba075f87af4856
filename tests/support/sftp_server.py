"""A server of SFTP on loopback, whose root is a folder."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import asyncssh

USER, PASSWORD = "ann", "open sesame"


class SftpServer:
    """Runs in a thread. `client_key` and `known_hosts` are files for its clients."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self.client_key, self.known_hosts = folder / "key", folder / "known_hosts"
        self._host_key, client = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        client.write_private_key(self.client_key)
        client.write_public_key(folder / "authorized")
        self._authorized = str(folder / "authorized")
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self.logins = 0
        self._connections: list[asyncssh.SSHServerConnection] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()
        public = self._host_key.export_public_key().decode()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}")

    @property
    def uri(self) -> str:
        return f"sftp://{USER}@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen; the second time on the same port."""
        self._listener = self._do(self._listen())
        self.port = self._listener.get_port()

    def stop(self) -> None:
        """Close the port and all connections."""
        self._do(self._close())

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self):
        server = self

        class Kept(asyncssh.SSHServer):
            def connection_made(self, connection) -> None:
                server._connections.append(connection)

            def auth_completed(self) -> None:
                server.logins += 1

            def password_auth_supported(self) -> bool:
                return True

            def validate_password(self, username: str, password: str) -> bool:
                return (username, password) == (USER, PASSWORD)

        def files(channel) -> asyncssh.SFTPServer:
            return asyncssh.SFTPServer(channel, chroot=str(self.root).encode())

        return await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=Kept,
            server_host_keys=[self._host_key],
            authorized_client_keys=self._authorized,
            sftp_factory=files,
        )

    async def _close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.abort()
        self._connections.clear()
        await self._listener.wait_closed()
