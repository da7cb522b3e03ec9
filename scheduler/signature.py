"""A bundle's signature: whoever holds the operator's key wrote it, and a scheduler host can insist on that.

    ssh-keygen -t ed25519 -N "" -f runcast-bundles                        on the host of the nights: `export: {sign_key: ...}`
    echo "runcast $(cat runcast-bundles.pub)" > runcast-signers           on the scheduler's host: `runcast serve --signers ...`

OpenSSH signs and verifies (`ssh-keygen -Y`, since 8.0), over manifest.json, which holds the hash of every other file. The key is
asymmetric: a scheduler host can check bundles and cannot make them.
"""

import subprocess
from pathlib import Path

from runcast.scheduler.errors import BundleError, BundleUnsigned

SIGNATURE = "manifest.json.sig"
SIGNER = "runcast"
_NAMESPACE = "runcast-bundle"
_LONGEST_S = 10.0
MOST_BYTES_OF_SIGNATURE = 16_384


def sign(manifest: Path, key: Path) -> None:
    """Write the signature of a manifest beside it; raises BundleError where the key cannot be used."""
    done = _ssh_keygen("sign", "-f", str(key), "-n", _NAMESPACE, str(manifest))
    if done.returncode:
        raise BundleError(
            f"{key}: cannot sign the bundle ({_last_line(done)}). Expected a private key without passphrase that only its owner "
            f'may read: ssh-keygen -t ed25519 -N "" -f {key}. The bundle was not made current; the one before serves.'
        )


def require_signature(bundle: Path, manifest: str, signers: Path) -> None:
    """Raise BundleUnsigned unless `manifest`, as read from the bundle, is signed by a key of `signers`.

    `signers` is an allowed-signers file of OpenSSH (ssh-keygen(1), ALLOWED SIGNERS): `runcast`, then the public key.
    """
    if not signers.is_file():
        raise BundleUnsigned(f"{signers}: no such file. It holds who may sign bundles: {SIGNER}, then the public key.")
    path = bundle / SIGNATURE
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MOST_BYTES_OF_SIGNATURE:
        raise BundleUnsigned(
            f"{bundle}: not signed, and {signers} asks for it. Name the key in the cluster file (`export: {{sign_key: ...}}`) and "
            "export again."
        )
    done = _ssh_keygen("verify", "-f", str(signers), "-I", SIGNER, "-n", _NAMESPACE, "-s", str(path), text=manifest)
    if done.returncode:
        raise BundleUnsigned(
            f"{bundle}: its signature is not by a key in {signers} ({_last_line(done)}). It was altered, or signed by somebody else."
        )


def _ssh_keygen(action: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-q", "-Y", action, *arguments],
            input=text, capture_output=True, text=True, timeout=_LONGEST_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(
            f"ssh-keygen, which signs and checks bundles, could not be run ({error}). Install openssh-client."
        ) from error


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
