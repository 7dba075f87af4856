"""Write docs/roles.md from the code: `python scripts/write_roles_page.py`."""

from __future__ import annotations

from pathlib import Path

from ridgeline.service.access.roles import MAY, Role
from ridgeline.service.http.endpoint import BASE
from ridgeline.service.http.endpoints import ENDPOINTS

PAGE = Path(__file__).parents[1] / "docs" / "roles.md"
HEAD = """# Roles: who may do what

Made from the code by `python scripts/write_roles_page.py`.

A tokens file says who may do what with which applications:

```
ridgeline token add ann --role operate --application 'quotes*' --expires 90d --file tokens
ridgeline run quotes.py --tokens tokens --audit-log audit.jsonl
```

`token add` prints the token once, and appends a line with its SHA-256. To take a right away, remove the line:

```
ann operate sha256:06e0... application=quotes* expires=2027-02-25T01:28:34Z
user:bob admin
group:oncall operate
"group:Data Ops" read
```

- **The file** must be its owner's alone (0600), and trusted as [security](security.md) says. It is read again
  within a second of a change. A version that is broken, or gone, or whose
  last line has no newline (it may have been cut), is said and changes nothing.
- **A line that goes or is lowered** counts at once, also for sessions of the page. Streams that are open end
  within seconds.
- **With `--tokens` reading needs a role too**, on this host neither. The tokens of `--token` (admin) and
  `--read-token` (read) keep their rights. Your own commands on the driver's host are the owner's, by the
  registry.
- **A proxy** names who asks by `--trust-header X-Forwarded-User,X-Forwarded-Groups`. Its headers count from
  the addresses of `--trusted-proxy` alone. From elsewhere they are ignored, and that is said once. The proxy
  must remove these headers from what its own clients send. A session of the page has the groups that the
  proxy names now, and ends after an hour.

Of several lines that fit, the greatest role counts.

## Sign-in by a proxy

People sign in at a proxy that knows your issuer of identities, such as oauth2-proxy. It sends who they are:

```
oauth2-proxy --provider oidc --oidc-issuer-url https://login.example/realms/ops \\
    --client-id ridgeline --client-secret-file /run/secrets/oidc --cookie-secret-file /run/secrets/cookie \\
    --email-domain '*' --pass-user-headers --upstream http://127.0.0.1:9400/ --http-address 0.0.0.0:443
ridgeline run quotes.py --port 9400 --tokens tokens --allow-host ops.example \\
    --trust-header X-Forwarded-User,X-Forwarded-Groups --trusted-proxy 127.0.0.1
```

Lines `user:NAME` and `group:NAME` of the tokens file give roles to the names that it sends. Sign out at the
proxy: `/oauth2/sign_out`. Programs go on to send tokens.

## What each role may

"""
CODE = """
An edit of the plan needs `operate` if it gives another number of partitions, an attribute, or a value that
can do nothing by itself. Those are numbers, booleans, durations and enumerations, as the operator declares
its properties. All else needs `admin`: a text may be a path, an address, a query or a name of code. So do
edits that add, replace or remove operators and streams, and values with `$import`, `$env`, `env:` or `file:`.
A class of operators may list further harmless properties: `operable = ("label",)`.

## The audit log

`--audit-log FILE` has each change and each denied try. A line has time, who, from where, application, path,
role and result. Secrets in it are masked. Its id is the header `x-request-id` of the answer.

```
jq 'select(.event == "denied")' audit*.jsonl
jq 'select(.who == "ann" and .event != "asked")' audit*.jsonl
```

A change is noted and synced before it is made. If that cannot be done, as on a full disk, changes are refused
with the reason, and reading continues. Of denied tries 60 are written at once, then one a second. The others
are counted. Full files are put away as those of [logs](logging.md#files-that-grow) are.

## Endpoints

All endpoints by GET need `read`, but for `/healthz`, `/readyz` and the page's files, which need nothing. An
endpoint that says no role is refused to all.

"""


def render() -> str:
    """The page's text."""
    text = HEAD + "| role | may |\n|---|---|\n"
    text += "".join(f"| `{role.word}` | {MAY[role]} |\n" for role in Role)
    rows = [
        f"| POST | `{one.path}` | {'' if one.needs is None else one.needs.word} | {one.summary} |"
        for one in ENDPOINTS
        if one.method != "GET"
    ]
    summary = "An address that opens the page with the rights of who asks."
    rows.append(f"| POST | `{BASE}/page` | operate | {summary} |")
    return (
        text + CODE + "| method | path | role | what it does |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(render())
