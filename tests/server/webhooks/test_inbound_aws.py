"""SES by SNS beside somebody else's SNS and S3: what moto signs is verified, what it keeps fetched.

moto asks nobody to confirm a subscription; that is tested in test_inbound_mail.py.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from oncebox.core import ids
from oncebox.core.egress import Egress
from tests.server.webhooks.test_inbound_mail import RAW, Desk
from tests.support.aws import REGION, Aws
from tests.support.databases import Place
from tests.support.hookserver import serving
from tests.support.inbound import PROVIDERS, SENDER, MailKeeper, b64

SES = PROVIDERS["ses"]
BUCKET = "mail-of-example"
KEY = "inbound/1 é+%&.eml"
#: moto has one address for all services, and chooses by the scope of the credential
_TO_SNS = f"AWS4-HMAC-SHA256 Credential=any/20261118/{REGION}/sns/aws4_request"
_SNS = f"https://sns.{REGION}.amazonaws.com/"


class AwsEgress(Egress):
    """Finds the certificates of SNS at moto, as a name server that points there would."""

    def __init__(self, aws: Aws) -> None:
        super().__init__(local=[aws.address])
        self._aws = aws
        self.certificates: list[str] = []
        self.fetched = asyncio.Event()

    async def get(self, url: str, *, most: int = 65_536, within: float = 5.0) -> bytes:
        """Fetch a certificate."""
        assert url.startswith(_SNS)
        path = url.removeprefix(_SNS)
        headers = {"authorization": _TO_SNS}
        answer = await self.fetch(
            f"{self._aws.url}/{path}", headers=headers, most=most, within=within
        )
        body = answer.body or b""
        self.certificates.append(body.decode())
        self.fetched.set()
        return body


class AwsDesk(Desk):
    """A server with an inbox, a topic that posts to it, and a bucket."""

    def __init__(self, desk: Desk, aws: Aws, egress: AwsEgress) -> None:
        super().__init__(desk.server, desk.keeper)
        self.aws = aws
        self.egress = egress

    async def topic(self) -> str:
        """Subscribe to a new topic."""
        return await asyncio.to_thread(self.aws.topic, f"mail-{ids.new('top')}", self.url(SES))

    async def ses_source(self, topic: str, key: str) -> None:
        """Add the source; moto has a certificate for each message, so the first one is kept."""
        options = {
            "topics": [topic], "buckets": [BUCKET], "region": REGION, "api_url": self.aws.url,
        }  # fmt: skip
        await self.server.source(SES.name, SES.scheme, key, options=options)
        await asyncio.to_thread(self.aws.publish, topic, {"notificationType": "Received"})
        await asyncio.wait_for(self.egress.fetched.wait(), 10)
        await self.server.add_secret(SES.name, self.egress.certificates[0])

    async def receive(self, topic: str, to: str, action: dict[str, Any], **more: str) -> None:
        """Let SES receive a mail, and SNS post it."""
        receipt = {"recipients": [to], "action": {"topicArn": topic, **action}}
        mail = {"source": SENDER, "messageId": "o3vrnil0e2ic28trm7dfhrc2v0clambda4nbp0g1"}
        message = {"notificationType": "Received", "receipt": receipt, "mail": mail, **more}
        await asyncio.to_thread(self.aws.publish, topic, message, checked="content" not in more)


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws]:
    """AWS for all tests of a process, with one mail in a bucket."""
    with Aws() as server:
        server.bucket(BUCKET, {KEY: RAW})
        yield server


@pytest.fixture(scope="session")
def reader_key(aws: Aws) -> str:
    """A key that may read the bucket."""
    return aws.reader_key()


@pytest.fixture
async def desk(place: Place, aws: Aws) -> AsyncIterator[AwsDesk]:
    egress = AwsEgress(aws)
    async with MailKeeper() as keeper, serving(place, egress=egress) as server:
        yield AwsDesk(Desk(server, keeper), aws, egress)


async def test_inline_mail_that_sns_signs_is_stored_once(desk: AwsDesk, reader_key: str) -> None:
    inbox, topic = await desk.inbox(), await desk.topic()
    await desk.ses_source(topic, reader_key)

    for _ in range(2):
        action = {"type": "SNS", "encoding": "BASE64"}
        await desk.receive(topic, inbox.email, action, content=b64(RAW))

    (found,) = await desk.stored()
    assert (found.body, found.envelope.sender) == (RAW, SENDER)
    assert (desk.count(SES, "stored"), desk.count(SES, "duplicate")) == (1, 1)
    assert "BEGIN CERTIFICATE" in desk.egress.certificates[0]


async def test_mail_in_s3_is_fetched_with_a_signature_that_is_checked(
    desk: AwsDesk, reader_key: str
) -> None:
    inbox, topic = await desk.inbox(), await desk.topic()
    await desk.ses_source(topic, reader_key)
    action = {"type": "S3", "bucketName": BUCKET, "objectKey": KEY}

    await desk.receive(topic, inbox.email, action)

    (found,) = await desk.stored()
    assert found.body == RAW


async def test_a_key_that_s3_refuses_leaves_the_mail_for_later(
    desk: AwsDesk, reader_key: str
) -> None:
    inbox, topic = await desk.inbox(), await desk.topic()
    id_, _, secret = reader_key.partition(":")
    await desk.ses_source(topic, f"{id_}:{secret.swapcase()}")
    action = {"type": "S3", "bucketName": BUCKET, "objectKey": KEY}

    await desk.receive(topic, inbox.email, action)

    assert await desk.stored() == []
    assert desk.count(SES, "not_fetched") == 1


async def test_an_object_that_s3_does_not_have_is_gone(desk: AwsDesk, reader_key: str) -> None:
    inbox, topic = await desk.inbox(), await desk.topic()
    await desk.ses_source(topic, reader_key)
    action = {"type": "S3", "bucketName": BUCKET, "objectKey": "missing"}

    await desk.receive(topic, inbox.email, action)

    assert await desk.stored() == []
    assert desk.count(SES, "gone") == 1


async def test_a_topic_of_somebody_else_is_refused_unread(desk: AwsDesk, reader_key: str) -> None:
    inbox, topic = await desk.inbox(), await desk.topic()
    foreign = await desk.topic()
    await desk.ses_source(topic, reader_key)
    action = {"type": "SNS", "encoding": "BASE64"}

    await desk.receive(foreign, inbox.email, action, content=b64(RAW))

    assert await desk.quarantined() == ["topic_not_allowed"]
    assert await desk.stored() == []
    assert len(desk.egress.certificates) == 1  # its certificate was not fetched
