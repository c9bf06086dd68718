# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Holds JSON against JSON schemas for HtCache::Schema: python3-jsonschema does the work.

Each line of standard input is an object with "schema" and "value". The answer to each is a line, a
list of sentences: what is wrong. The schema itself is checked, too.
"""
import json
import sys

from jsonschema import Draft202012Validator as Validator


def problems(schema, value):
    Validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}"[:500] for error in Validator(schema).iter_errors(value)]


for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps(problems(task["schema"], task["value"])), flush=True)
