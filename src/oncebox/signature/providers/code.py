"""Where code is kept and shipped: GitHub, GitLab and their kin, Linear, Vercel, PagerDuty."""

from msgspec.structs import replace

from oncebox.signature.odd import credentials
from oncebox.signature.providers.standard import STANDARD
from oncebox.signature.scheme import Scheme, signed, unsigned

_GITHUB = Scheme(
    name="github",
    title="GitHub",
    header="X-Hub-Signature-256",
    marks=(("sha256=", "sha256"),),
    id=(unsigned("header:X-GitHub-Delivery"),),
    type=(unsigned("header:X-GitHub-Event"),),
)

SCHEMES = (
    _GITHUB,
    replace(
        _GITHUB,
        name="github-legacy",
        title="GitHub, the older header",
        header="X-Hub-Signature",
        marks=(("sha1=", "sha1"), ("sha256=", "sha256"), ("sha512=", "sha512")),
        takes=("header",),
        note="for senders that still sign with SHA-1; prefer github",
    ),
    Scheme(
        name="gitlab",
        title="GitLab, secret token",
        header="X-Gitlab-Token",
        algorithm="token",
        covers=(),
        # One event may trigger further ones under the same event UUID.
        id=(unsigned("header:Idempotency-Key"), unsigned("header:X-Gitlab-Event-UUID")),
        type=(unsigned("$.object_kind"), unsigned("header:X-Gitlab-Event")),
        takes=("header",),
        verifier=credentials.token,
        note="a token proves nothing about the body; prefer gitlab-signing",
    ),
    replace(
        STANDARD,
        name="gitlab-signing",
        title="GitLab, signing token",
        type=(signed("$.object_kind"),),
    ),
    Scheme(
        name="bitbucket",
        title="Bitbucket Cloud",
        header="X-Hub-Signature",
        marks=(("sha256=", "sha256"),),
        id=(unsigned("header:X-Request-UUID"),),
        type=(unsigned("header:X-Event-Key"),),
    ),
    Scheme(
        name="bitbucket-server",
        title="Bitbucket Server and Data Center",
        header="X-Hub-Signature",
        marks=(("sha256=", "sha256"),),
        id=(unsigned("header:X-Request-Id"),),
        type=(signed("$.eventKey"), unsigned("header:X-Event-Key")),
    ),
    Scheme(
        name="gitea",
        title="Gitea and Forgejo",
        header="X-Gitea-Signature",
        id=(unsigned("header:X-Gitea-Delivery"),),
        type=(unsigned("header:X-Gitea-Event"),),
    ),
    Scheme(
        name="gogs",
        title="Gogs",
        header="X-Gogs-Signature",
        id=(unsigned("header:X-Gogs-Delivery"),),
        type=(unsigned("header:X-Gogs-Event"),),
    ),
    Scheme(
        name="linear",
        title="Linear",
        header="Linear-Signature",
        # The header is unsigned: it only serves where the body has no time.
        timestamp="$.webhookTimestamp|header:linear-timestamp",
        unit="ms",
        window=60,
        late="run",
        id=(unsigned("header:Linear-Delivery"),),
        type=(signed("$.type+$.action?"),),
        volatile=("$.webhookTimestamp",),
        note="retries keep their time, so what is late runs",
    ),
    Scheme(
        name="vercel",
        title="Vercel",
        header="X-Vercel-Signature",
        marks=(("", "sha1"),),
        id=(signed("$.id"),),
        type=(signed("$.type"),),
    ),
    Scheme(
        name="pagerduty",
        title="PagerDuty v3",
        header="X-PagerDuty-Signature",
        separator=",",
        marks=(("v1=", "sha256"),),
        id=(signed("$.event.id"),),
        type=(signed("$.event.event_type"),),
    ),
)
