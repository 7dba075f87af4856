from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Secret, SecretBytes, SecretStr

from ridgeline.api.errors import described
from ridgeline.api.support.masking import (
    MASK,
    hide,
    mask,
    mask_text,
    masked_and_capped,
    masked_and_shortened,
    printable,
)
from ridgeline.api.support.secret_names import is_secret

_words = str.split

SECRET_NAMES = _words("""
    password Password PASSWORD passwd passWord pwd PWD pass PASS passphrase pass_phrase passcode db_password
    dbPassword dbpassword userpass db_pass smtpPass mypwd ssl.key.password ssl.keystore.password
    spark.ssl.keyPassword kafka.sasl.password user_password_2 password1 secret secrets client_secret
    clientSecret clientsecret fs.s3a.secret.key awsSecretAccessKey secretkey SECRET_KEY_BASE secretKeyRef
    token tokens auth_token authToken accessToken refresh-token bearerToken spark.databricks.token
    dapi_token session.token X-Auth-Token credential credentials gcp_credentials fs.gs.auth.credentials
    access.key access_key accessKey accesskey fs.s3a.access.key AWSAccessKeyId aws_access_key_id account.key
    accountKey AccountKey fs.azure.account.key.me.dfs.core.windows.net
    fs.azure.sas.box.me.blob.core.windows.net SharedAccessKey shared_access_key shared.access.signature
    api_key apiKey apikey api-key API_KEY X-Api-Key x_api_key2 openai_api_key keystore.key ssl.keystore.key
    truststore.key privateKey private_key private-key fs.gs.auth.service.account.private.key ssl.key
    signing_key signingKey encryption_key fs.s3a.server-side-encryption.key masterKey master_key storage_key
    storageAccountKey subscription-key license_key rsa_key ssh_key fernet_key hmac_key host_key
    Authorization authorization Proxy-Authorization PROXY_AUTHORIZATION sig signature Signature
    X-Amz-Signature X-Amz-Security-Token X-Amz-Credential jwt JWT jwt_assertion cookie cookies Set-Cookie
    session session_id sessionId JSESSIONID phpsessid sid sasl.jaas.config kafka.sasl.jaas.config jaas
    basic_auth auth otp hmac bearer
""")

HARMLESS_NAMES = _words("""
    partition_key partitionKey partition.key key keys Key primary_key primaryKey sort_key sortKey
    foreign_key hash_key range_key row_key routing_key group_key cache_key join_key record_key message.key
    dedupe_key public_key publicKey s3_key object_key key_column keyColumn key_field keyboard monkey
    keyspace keytab hotkey turkey compass compassHeading passenger passengers passengerCount passive passed
    passes passport bypass passthrough pass_through passage design designer signal signals sign assign
    assignee config insight significant tokenizer tokenize tokenised max_tokens maxTokens num_tokens
    token_count token_url tokenEndpoint password_file passwordFile password_column secret_name secretName
    secrets_path credentials_provider fs.s3a.aws.credentials.provider secretary secretariat author authors
    authority authenticated authentication_mode session_window session_gap sessions session_timeout
    session_timezone signature_version signing_algorithm cookie_policy access account account_id accountName
    api api_version private keystore ssl.keystore.location ssl.truststore.location ssl.keystore.type host
    user username login symbol name count format options mode schema topic subscribe kafka.bootstrap.servers
    startingOffsets maxOffsetsPerTrigger path url per_window rows_per_second
""")


def test_a_secret_is_masked_by_its_name() -> None:
    for name in SECRET_NAMES:
        assert mask(name, "hunter2") == MASK
        assert mask("options", {name: "hunter2", "user": "ann"}) == {name: MASK, "user": "ann"}
        shown = f"Source(user='ann', {name}='***', n=1)"
        assert mask_text(f"Source(user='ann', {name}='hunter2', n=1)") == shown
        assert "hunter2" not in mask_text(json.dumps({"a": 1, name: "hunter2"}))
        assert "hunter2" not in mask_text(f"https://host/path?a=1&{name}=hunter2&b=2")


def test_a_harmless_name_is_shown() -> None:
    for name in HARMLESS_NAMES:
        assert not is_secret(name)
        assert mask(name, "symbol") == "symbol"
        assert mask("options", {name: "symbol"}) == {name: "symbol"}
        assert mask_text(f"Source({name}='symbol', n=1)") == f"Source({name}='symbol', n=1)"
        assert mask_text(f"{name}: symbol; {name}=symbol") == f"{name}: symbol; {name}=symbol"


SECRETS_WITHIN_TEXTS = [
    ("postgres://ann:hunter2@db/sales", "postgres://ann:***@db/sales"),
    ("postgres://ann:p@ss@db:5432/sales?x=1", "postgres://ann:***@db:5432/sales?x=1"),
    ("postgres://ann@corp.com:p@ss@db/sales", "postgres://ann@corp.com:***@db/sales"),
    ("postgres://ann:a/b?c#d@db/sales", "postgres://ann:***@db/sales"),
    ("redis://:hunter2@cache:6379/0", "redis://:***@cache:6379/0"),
    ("mongodb+srv://ann:p@ss@h1:1,h2:2/db?w=1", "mongodb+srv://ann:***@h1:1,h2:2/db?w=1"),
    ("amqp://a:x1@h1,amqp://b:x2@h2", "amqp://a:***@h1,amqp://b:***@h2"),
    ("jdbc:postgresql://ann:x@db/sales?sslpassword=y&ssl=true", "jdbc:postgresql://ann:***@db/sales?sslpassword=***&ssl=true"),
    (
        "jdbc:sqlserver://db:1433;databaseName=sales;user=ann;password=hunter2;encrypt=true",
        "jdbc:sqlserver://db:1433;databaseName=sales;user=ann;password=***;encrypt=true",
    ),
    ("jdbc:sqlserver://db;password={a;b c};encrypt=true", "jdbc:sqlserver://db;password=***;encrypt=true"),
    (
        "Server=db;Database=x;User Id=ann;Password=hunter2;",
        "Server=db;Database=x;User Id=ann;Password=***;",
    ),
    ("Server=db;Uid=ann;Pwd=hunter2", "Server=db;Uid=ann;Pwd=***"),
    ("host=db user=ann password=hunter2 dbname=x", "host=db user=ann password=*** dbname=x"),
    (
        "AccountName=me;AccountKey=ab+/c==;EndpointSuffix=core",
        "AccountName=me;AccountKey=***;EndpointSuffix=core",
    ),
    ("Account Key=ab+/c==;x=1", "Account Key=***;x=1"),
    ("Endpoint=sb://me/;SharedAccessKeyName=root;SharedAccessKey=ab=", "Endpoint=sb://me/;SharedAccessKeyName=root;SharedAccessKey=***"),
    ("https://me.blob.core.windows.net/b?sv=1&sig=ab%2Fc%3D&se=2", "https://me.blob.core.windows.net/b?sv=1&sig=***&se=2"),
    ("GET /x?X-Amz-Signature=abc&X-Amz-Date=2", "GET /x?X-Amz-Signature=***&X-Amz-Date=2"),
    ("Authorization: Bearer abc.def", "Authorization: ***"),
    ("authorization: Basic YW5uOng=\nHost: db", "authorization: ***\nHost: db"),
    ("{'Authorization': 'Bearer abc', 'Accept': 'x'}", "{'Authorization': '***', 'Accept': 'x'}"),
    ('{\\"Authorization\\": \\"Bearer abc\\"}', '{\\"Authorization\\": \\"***\\"}'),
    ("Proxy-Authorization: Digest a=b, c=d", "Proxy-Authorization: ***"),
    ("Set-Cookie: sid=1; Path=/", "Set-Cookie: ***"),
    ('required username="ann" password="hunter2";', 'required username="ann" password="***";'),
    ('{"apiKey": "k\\"x", "n": 1}', '{"apiKey": "***", "n": 1}'),
    ('{\\"password\\": \\"abc\\", \\"n\\": 1}', '{\\"password\\": \\"***\\", \\"n\\": 1}'),
    ("Config(password='hunter2, with a cut", "Config(password='***"),
    ("Config(password=SecretStr('x y'), n=1)", "Config(password=***, n=1)"),
    ("passwords: ['a', 'b'] here", "passwords: *** here"),
    ("token => abc", "token => ***"),
    ("--api-key=abc --user ann", "--api-key=*** --user ann"),
]  # fmt: skip


def test_secrets_within_texts_are_masked() -> None:
    for text, masked in SECRETS_WITHIN_TEXTS:
        assert mask_text(text) == masked
        assert mask("uri", text) == masked
        assert mask_text(masked) == masked


def test_harmless_texts_stay_as_they_are() -> None:
    for text in (
        "http://localhost:8080/path@x?y=z@w",
        "kafka://h1:9092,h2:9092/x@y",
        "mailto:ann@example.com and mail:ann@example.com",
        "s3a://bucket/key=1/part-0.parquet",
        "abfss://box@me.dfs.core.windows.net/path",
        "git@github.com:ann/repo.git@v1",
        "image:tag@sha256:0123",
        "at 12:30:05, window 3: 5 in, 6 out",
        (
            "operator `x` failed in window 3 in `process`: KeyError: 'IBM'; "
            "the tuple was Trade(symbol='IBM', price=1.0)"
        ),
        "property `password` of `X` is required and was not given; give it, in `X(password=...)`",
        "the passenger: Ann; the compass=north",
        "bearer",
        "Basic functionality",
        "jdbc:postgresql://db:5432/sales?ssl=true",
        "give the `token` that was shown",
        "",
    ):
        assert mask_text(text) == text


@dataclass
class Account:
    user: str
    password: str


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("limit", 3, 3),
        ("password", 1234, MASK),
        ("password", None, None),
        ("password", "", ""),
        ("has_password", True, True),
        ("passwords", ["a", "b"], [MASK, MASK]),
        ("auth", ("ann", "hunter2"), (MASK, MASK)),
        (
            "headers",
            [("Authorization", "Bearer x"), ("Accept", "y")],
            [("Authorization", MASK), ("Accept", "y")],
        ),
        ("credentials", {"user": "ann", "type": "basic"}, {"user": MASK, "type": "basic"}),
        ("options", {"a": [{"token": "x", "n": 1}]}, {"a": [{"token": MASK, "n": 1}]}),
        ("anything", SecretStr("x"), MASK),
        ("anything", SecretBytes(b"x"), MASK),
        ("anything", Secret[int](5), MASK),
        ("anything", [SecretStr("x")], [MASK]),
        ("secret", b"x", MASK),
    ],
)
def test_values_keep_their_form(name: str, value: Any, masked: Any) -> None:
    assert mask(name, value) == masked


def test_other_objects_are_masked_in_their_repr() -> None:
    assert mask("account", Account("ann", "hunter2")).endswith("Account(user='ann', password='***')")


_HIDDEN = st.text(
    st.characters(codec="utf-8", exclude_characters="'\"\\\n\r\x85\u2028\u2029"), min_size=4
).map(lambda text: f"Zq7{text}Zq8")
_FORMS = (
    "{{'user': 'ann', 'password': '{0}'}}",
    '{{"user": "ann", "api_key": "{0}", "n": 1}}',
    "Source(access_key='{0}', n=1)",
    "Authorization: Bearer {0}",
    'a\npwd="{0}" b',
)


@given(_HIDDEN, st.sampled_from(_FORMS))
def test_nothing_of_a_quoted_secret_is_seen(secret: str, form: str) -> None:
    masked = mask_text(form.format(secret))
    assert "Zq7" not in masked
    assert "Zq8" not in masked


def test_nothing_of_a_secret_is_seen_where_a_text_is_cut() -> None:
    hide("Zq7-given-by-an-option-Zq8")
    secrets = ("https://ann:Zq7xyzxyzxyzxyzZq8@db/x", "Zq7-given-by-an-option-Zq8")
    for before, secret in itertools.product(range(0, 400, 3), secrets):
        text = f"{'-' * before} {secret} {'-' * (400 - before)}"
        for shown in (
            masked_and_capped(text, 200),
            masked_and_shortened(text, 200),
            masked_and_shortened(f"{text}{'+' * 50_000}{text}", 200),
            described(OSError(text), 200),
        ):
            assert len(shown) <= 200
            assert not any(part in shown for part in ("Zq7", "Zq8", "yzx", "by-an"))


@given(st.text())
def test_any_text_can_be_masked_and_printed(text: str) -> None:
    assert isinstance(mask_text(text), str)
    shown = printable(text)
    assert all(each.isprintable() or each in "\n\t" or ord(each) >= 0xA0 for each in shown)
    assert printable(shown) == shown
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00fc\u4e2d \U0001f468\u200d\U0001f469", "plain \u00fc\u4e2d \U0001f468\u200d\U0001f469"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b[1;31mred", "\\x1b[2J\\x1b[1;31mred"),
        ("\x1b]0;title\x07\x1b]52;c;YQ==\x1b\\", "\\x1b]0;title\\x07\\x1b]52;c;YQ==\\x1b\\"),
        ("\x9b2J\x90q\x9c", "\\x9b2J\\x90q\\x9c"),
        ("over\rwritten\x08\x7f\x00", "over\\rwritten\\b\\x7f\\x00"),
        ("\u202egnp.exe\u2066x\u2069", "\\u202egnp.exe\\u2066x\\u2069"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
