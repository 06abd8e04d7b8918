"""`scrubjay audit`: what commands did is told, by whom and through which door."""

import json
from pathlib import Path

from tests.acceptance.command_line import run, the_sentence


def test_what_a_command_did_is_listed_and_can_be_filtered(home: Path) -> None:
    made = json.loads(run("keys", "create", "reader", "--json", home=home).stdout)
    listed = json.loads(run("audit", "--json", home=home).stdout)
    assert [(entry["action"], entry["door"]) for entry in listed] == [("key.created", "command line")] * 2
    newest, first = listed
    assert (newest["target_id"], newest["key_name"]) == (made["id"], "admin (made at first start)")
    assert first["target_id"] == newest["key_id"]
    assert made["key"] not in json.dumps(listed)
    shown = run("audit", "--action", "key.created", "--key", newest["key_id"], "-n", "1", home=home)
    assert shown.returncode == 0
    when, by, more = shown.stdout.splitlines()
    assert when.endswith(f"key.created  {made['id']}")
    assert by.strip() == "admin (made at first start) · command line · name: reader; scopes: read"
    assert more == "There are more: --offset 1."
    the_sentence(run("audit", "--action", "nonsense", home=home), "action must be one of")
