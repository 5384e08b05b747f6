"""An authority of a test's own, and the certificates that it signs (PEM, PKCS #8; by openssl)."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Its files are in one folder: ca.crt, and a .crt and a .key for each certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self._openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 "
                      "-subj /CN=test-authority")  # fmt: skip

    def certify(self, name: str, alternative_name: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """Makes NAME.crt and NAME.key, for one host."""
        (self._folder / "san").write_text(f"subjectAltName={alternative_name}")
        self._openssl(f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr "
                      f"-subj /CN={name}")  # fmt: skip
        self._openssl(f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial "
                      f"-days 2 -extfile san -out {name}.crt")  # fmt: skip
        return self._folder / f"{name}.crt", self._folder / f"{name}.key"

    def truststore(self) -> Path:
        """Makes authorities.jks, which has this authority alone, for Java."""
        keytool = "keytool -importcert -noprompt -alias ca -storetype JKS -storepass changeit"
        store = self._folder / "authorities.jks"
        self._run(*keytool.split(), "-file", str(self.certificate), "-keystore", str(store))
        return store

    def _openssl(self, arguments: str) -> None:
        self._run("openssl", *arguments.split())

    def _run(self, *command: str) -> None:
        subprocess.run(command, cwd=self._folder, check=True, capture_output=True, timeout=60)
