"""Signature Version 4, against the examples that Amazon publishes for S3's Authorization header."""

from datetime import UTC, datetime

import pytest

from scrubjay.sources.s3_signing import S3Credentials, encode_path, encode_query, sign_get

CREDENTIALS = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
NOW = datetime(2013, 5, 24, tzinfo=UTC)
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("path", "parameters", "headers", "names", "signature"),
    [
        pytest.param(
            "/test.txt", {}, {"Range": "bytes=0-9"}, "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", id="GET object",
        ),
        pytest.param(
            "/", {"lifecycle": ""}, {}, "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", id="GET bucket lifecycle",
        ),
        pytest.param(
            "/", {"prefix": "J", "max-keys": "2"}, {}, "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", id="GET bucket (list objects)",
        ),
    ],
)  # fmt: skip
def test_the_published_examples_come_out_as_published(
    path: str, parameters: dict[str, str], headers: dict[str, str], names: str, signature: str
) -> None:
    query = encode_query(parameters.items())

    signed = sign_get(
        CREDENTIALS, host=HOST, path=encode_path(path), query=query, region="us-east-1", now=NOW, headers=headers
    )

    assert signed == {
        "x-amz-content-sha256": EMPTY_SHA256,
        "x-amz-date": "20130524T000000Z",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={names},Signature={signature}",
    }


def test_a_path_is_encoded_once_byte_by_byte_with_its_slashes() -> None:
    assert encode_path("/test$file.text") == "/test%24file.text"
    assert encode_path("/a//b c/+é~(1).txt") == "/a//b%20c/%2B%C3%A9~%281%29.txt"
    assert encode_path("/100%25") == "/100%2525"


def test_a_query_is_sorted_by_its_encoded_names_and_has_no_plus_for_a_space() -> None:
    parameters = {"prefix": "a b/c+d=", "list-type": "2", "encoding-type": "url"}

    assert encode_query(parameters.items()) == "encoding-type=url&list-type=2&prefix=a%20b%2Fc%2Bd%3D"


def test_another_region_day_or_secret_makes_another_signature() -> None:
    def signature(credentials: S3Credentials = CREDENTIALS, region: str = "us-east-1", now: datetime = NOW) -> str:
        return sign_get(credentials, host=HOST, path="/", query="", region=region, now=now)["Authorization"][-64:]

    others = {
        signature(region="eu-west-1"),
        signature(now=datetime(2013, 5, 25, tzinfo=UTC)),
        signature(S3Credentials("AKIAIOSFODNN7EXAMPLE", "another")),
        signature(),
    }
    assert len(others) == 4


def test_the_secret_does_not_show_when_credentials_are_printed() -> None:
    assert "wJalr" not in repr(CREDENTIALS)
