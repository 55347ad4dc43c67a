"""AWS on this machine, by moto: topics that sign and post, buckets that check signatures."""

import json
import logging
from types import MappingProxyType
from typing import Any, Self

import boto3
import httpx2
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
_ANYBODY = MappingProxyType({"aws_access_key_id": "any", "aws_secret_access_key": "any"})
_READER = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
    }
)


class Aws:
    """SNS, S3 and IAM for as long as the block lasts; everything here blocks."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.url = ""

    def __enter__(self) -> Self:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._moto("reset", b"")
        self._server.stop()

    @property
    def address(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    def client(self, service: str) -> Any:
        """Return a client of a service that may do everything."""
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **_ANYBODY)

    def topic(self, name: str, endpoint: str) -> str:
        """Make a topic that posts to an address; return its ARN."""
        sns = self.client("sns")
        arn = str(sns.create_topic(Name=name)["TopicArn"])
        sns.subscribe(TopicArn=arn, Protocol="http", Endpoint=endpoint)
        return arn

    def publish(self, topic: str, message: dict[str, Any], *, checked: bool = False) -> None:
        """Publish to a topic; it is posted when this returns, whatever the answer was.

        With ``checked``, requests that come meanwhile are refused if their signature is wrong.
        """
        sns = self.client("sns")
        # The request to publish itself is not checked: its key is nobody's.
        self._moto("reset-auth", b"1" if checked else b"inf")
        sns.publish(TopicArn=topic, Message=json.dumps(message))
        self._moto("reset-auth", b"inf")

    def bucket(self, name: str, objects: dict[str, bytes]) -> None:
        """Make a bucket."""
        s3 = self.client("s3")
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        for key, data in objects.items():
            s3.put_object(Bucket=name, Key=key, Body=data)

    def reader_key(self) -> str:
        """Return a key that may read objects, and nothing else."""
        iam = self.client("iam")
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=_READER)
        made = iam.create_access_key(UserName="reader")["AccessKey"]
        return f"{made['AccessKeyId']}:{made['SecretAccessKey']}"

    def _moto(self, action: str, body: bytes) -> None:
        httpx2.post(f"{self.url}/moto-api/{action}", content=body, trust_env=False)
