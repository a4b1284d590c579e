"""No secret is told again, in whatever words it comes."""

import pytest

from quantgrid.masking import masked

ENVIRONMENT = {
    "HF_TOKEN": "abcdef-123456",
    "AWS_SECRET_ACCESS_KEY": "wJalr/K7MDENG+bPx",
    "DB_PASSWORD": "hunter2hunter2",
    "KEYBOARD": "qwerty-layout",
    "SHORT_TOKEN": "ab",
    "DEPLOY_KEY": "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----",
    "PATH": "/usr/bin:/bin",
}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("token abcdef-123456 refused", "token [HF_TOKEN] refused"),
        ("key wJalr/K7MDENG+bPx!", "key [AWS_SECRET_ACCESS_KEY]!"),
        ("pw=hunter2hunter2", "pw=[DB_PASSWORD]"),
        ("GET https://me:geheim99@host/x", "GET https://[masked]@host/x"),
        ("Authorization: Bearer aaaaBBBBcccc.dd", "Authorization: Bearer [masked]"),
        ("id AKIA" + "ABCDEFGHIJKLMNOP", "id [masked]"),
        ("hf_" + "a" * 30, "[masked]"),
        ("ghp_" + "b" * 36, "[masked]"),
        ("rpa_" + "C" * 30, "[masked]"),
        ("half of it: MIIEvQIBADANBg", "half of it: [DEPLOY_KEY]"),
        ("qwerty-layout in /usr/bin:/bin ab", "qwerty-layout in /usr/bin:/bin ab"),
        ("a plain line with n0-t800k-s0/rtn-w3g32", "a plain line with n0-t800k-s0/rtn-w3g32"),
    ],
)
def test_masking_leaves_words_and_takes_secrets(text: str, seen: str) -> None:
    """Values of secret variables and tokens of known shape go; everything else stays."""
    assert masked(text, ENVIRONMENT) == seen
