"""AWS signatures: as in the examples of AWS, and of the path as it is sent."""

from oncebox.core.aws_signature import AwsCredentials, object_path, sign_get

#: of the examples in the S3 API reference
EXAMPLE = AwsCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
AT = 1_369_353_600_000


def signature(url: str, credentials: AwsCredentials = EXAMPLE, **headers: str) -> str:
    signed = sign_get(
        url, credentials, region="us-east-1", service="s3", now=AT, headers=dict(headers)
    )
    return signed["authorization"].rpartition("=")[2]


def test_the_example_of_get_object_has_its_signature() -> None:
    assert signature(
        "https://examplebucket.s3.amazonaws.com/test.txt", range="bytes=0-9"
    ) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"  # fmt: skip


def test_the_example_with_a_query_has_its_signature() -> None:
    assert signature(
        "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"
    ) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"  # fmt: skip


def test_a_session_is_signed_and_sent() -> None:
    session = AwsCredentials(EXAMPLE.key_id, EXAMPLE.secret, "canary")
    url = "https://s3.us-east-1.amazonaws.com/b/k"
    signed = sign_get(url, session, region="us-east-1", service="s3", now=AT)

    assert signed["x-amz-security-token"] == "canary"
    assert "x-amz-security-token" in signed["authorization"]
    assert signature(url) != signature(url, session)


def test_a_key_is_escaped_once() -> None:
    assert object_path("b", "in/2026 11/m\u00e4il+1=%") == "/b/in/2026%2011/m%C3%A4il%2B1%3D%25"


def test_credentials_do_not_print_their_secret() -> None:
    assert EXAMPLE.secret not in repr(EXAMPLE)
