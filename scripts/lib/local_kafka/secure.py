"""What a secured cluster has beside its PLAINTEXT listener: users, certificates, ACLs.

PLAINTEXT stays, for the scripts and for tests that look from outside: whoever comes that way is
ANONYMOUS, a super user. Over the other listeners `lockstep` may do nothing until an ACL says so, and
`admin` everything. A certificate's user is its subject: "User:CN=lockstep".
"""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

from .basics import Failure

# Name of the listener -> its protocol, and its certificate. The last ones are what clients must not
# accept.
LISTENERS = {
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", ""),
    "SSL": ("SSL", "broker"),
    "SASL_SSL": ("SASL_SSL", "broker"),
    "SSL_EXPIRED": ("SSL", "broker-expired"),
    "SSL_NOT_YET": ("SSL", "broker-not-yet"),
    "SSL_OTHER_CA": ("SSL", "broker-other-ca"),
    "SSL_ELSEWHERE": ("SSL", "broker-elsewhere"),
}
# Of PLAIN and SCRAM. The passwords are long and odd, so that tests can look for them where they must
# not be.
USERS = {"lockstep": "canary-lockstep-9d2f6c41", "admin": "canary-admin-57ab03e8"}
KEY_PASSWORD = "canary-key-c0ffee17"  # Of client-locked.key: the same key, encrypted.
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY = "org.apache.kafka.common.security"

_HERE = "DNS:localhost,IP:127.0.0.1"
# What is issued: name of the files, subject, its other names, the days from now from and until which
# it is valid, and by which CA.
_CERTIFICATES = (
    ("broker", "/CN=broker", _HERE, -1, 30, "ca"),
    ("broker-elsewhere", "/CN=broker", "DNS:kafka.elsewhere.example", -1, 30, "ca"),
    ("broker-expired", "/CN=broker", _HERE, -30, -1, "ca"),
    ("broker-not-yet", "/CN=broker", _HERE, 1, 30, "ca"),
    ("broker-other-ca", "/CN=broker", _HERE, -1, 30, "other-ca"),
    ("client", "/CN=lockstep", "DNS:lockstep", -1, 30, "ca"),
    ("client-expired", "/CN=lockstep", "DNS:lockstep", -30, -1, "ca"),
    ("client-other-ca", "/CN=lockstep", "DNS:lockstep", -1, 30, "other-ca"),
)
_CA_CONFIG = """[ca]
default_ca = local
[local]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


def folder(root: Path) -> Path:
    return root / "security"


def _openssl(where: Path, *words: str) -> None:
    done = subprocess.run(("openssl", *words), cwd=where, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"openssl {words[0]} failed:\n{done.stdout}")


def _key(where: Path, name: str) -> None:
    _openssl(where, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-out", f"{name}.key")


def _issue(where: Path, name: str, subject: str, names: str, valid: tuple[int, int],
           issuer: str) -> None:
    _key(where, name)
    _openssl(where, "req", "-new", "-key", f"{name}.key", "-subj", subject, "-addext",
             f"subjectAltName={names}", "-out", f"{name}.csr")
    now = datetime.datetime.now(datetime.timezone.utc)
    begin, end = [(now + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in valid]
    _openssl(where, "ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", f"{issuer}.crt",
             "-keyfile", f"{issuer}.key", "-startdate", begin, "-enddate", end, "-in",
             f"{name}.csr", "-out", f"{name}.crt")
    parts = [f"{name}.key", f"{name}.crt", f"{issuer}.crt"]
    text = "".join((where / part).read_text(encoding="utf-8") for part in parts)
    (where / f"{name}.pem").write_text(text, encoding="utf-8")


def make_files(root: Path) -> None:
    """Keys and certificates, under folder(root): NAME.crt, NAME.key, and both in NAME.pem."""
    where = folder(root)
    where.mkdir()
    (where / "ca.cnf").write_text(_CA_CONFIG, encoding="utf-8")
    (where / "index.txt").touch()
    for issuer in ("ca", "other-ca"):
        _key(where, issuer)
        _openssl(where, "req", "-x509", "-new", "-key", f"{issuer}.key", "-subj", f"/CN={issuer}",
                 "-days", "30", "-out", f"{issuer}.crt")
    for name, subject, names, begin, end, issuer in _CERTIFICATES:
        _issue(where, name, subject, names, (begin, end), issuer)
    _openssl(where, "pkey", "-in", "client.key", "-aes256", "-passout",
             f"pass:{KEY_PASSWORD}", "-out", "client-locked.key")


def properties(root: Path) -> dict[str, str]:
    plain_users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    login = {
        "plain": f"{_SECURITY}.plain.PlainLoginModule required {plain_users};",
        "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required;",
        "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
                       'unsecuredLoginStringClaim_sub="broker";',
    }
    config = {
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder(root) / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder(root) / "ca.crt"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": "false",
    }
    for listener, (protocol, certificate) in LISTENERS.items():
        prefix = f"listener.name.{listener.lower()}"
        if protocol.startswith("SASL"):
            for mechanism, module in login.items():
                config[f"{prefix}.{mechanism}.sasl.jaas.config"] = module
        if certificate:
            config[f"{prefix}.ssl.keystore.type"] = "PEM"
            config[f"{prefix}.ssl.keystore.location"] = str(folder(root) / f"{certificate}.pem")
        if protocol == "SSL":  # It knows its users by their certificates; SASL_SSL by their log-in.
            config[f"{prefix}.ssl.client.auth"] = "required"
    return config


def protocol_map() -> str:
    return ",".join(f"{name}:{protocol}" for name, (protocol, _) in LISTENERS.items())
