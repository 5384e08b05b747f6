"""A credential in plain text is found wherever a spec can hold one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.validation.rules.plain_credentials import find_problems
from testkit.streams.streams import MICRO_BATCH, spec


def env(name: str, kind: str = "containers", **value: Any) -> dict[str, Any]:
    variable = {"name": name, **(value or {"value": "x"})}
    return {"podTemplate": {"spec": {kind: [{"name": "driver", "env": [variable]}]}}}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"driver": env("DB_PASSWORD")}, "spec.driver.podTemplate: spec.containers[driver].env"),
        ({"executor": env("AWS_SECRET_ACCESS_KEY")}, "AWS_SECRET_ACCESS_KEY"),
        ({"executor": env("apiKey", "initContainers")}, "spec.initContainers[driver].env: apiKey"),
        ({"sparkConf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "spec.sparkConf: "),
        ({"sparkConf": {"spark.executorEnv.GITHUB_TOKEN": "x"}}, "GITHUB_TOKEN"),
        (
            {"driver": {"javaOptions": ["-Djavax.net.ssl.trustStorePassword=x"]}},
            "spec.driver.javaOptions: javax.net.ssl.trustStorePassword",
        ),
        ({"executor": {"javaOptions": ["-Da=b -Ddb.password=x"]}}, "db.password"),
        ({"dependencies": {"jars": ["https://me:x@host/a.jar"]}}, "spec.dependencies.jars[0]"),
        ({"sink": {"custom": {"format": "f", "options": {"token": "x"}}}}, "spec.sink.custom"),
        (
            {
                "sink": {"python": {"function": "m:f", "options": {"token": "x"}}},
                "trigger": MICRO_BATCH,
            },
            "spec.sink.python.options",
        ),
        *(
            (fields, "spec.")
            for name, value in (
                ("spark.mongodb.connection.uri", "mongodb://user:pa55=x@h/db"),
                ("url", "jdbc:postgresql://h/db?user=u&password=x"),
                ("url", "jdbc:sqlserver://h;databaseName=a;user=u;password=x;"),
                ("url", "mongodb+srv://me:x@cluster0.example/"),
                ("redis", "redis://:x@h:6379"),
                ("es.net.http.auth.pass", "x"),
                ("fs.azure.account.key.acc.dfs.core.windows.net", "x"),
                ("spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net", "x"),
                ("spark.hadoop.fs.azure.sas.fixed.token.acc.dfs.core.windows.net", "x"),
                ("path", "wasbs://c@a.blob.core.windows.net/?sv=2020&sig=x"),
                ("path", "https://b.s3.amazonaws.com/a?X-Amz-Signature=x"),
            )
            for fields in (
                {"sink": {"custom": {"format": "f", "options": {name: value}}}},
                {"source": {"custom": {"format": "f", "options": {name: value}}}},
                {"sparkConf": {f"spark.{name}": value}}
                if not name.startswith(("spark.", "fs."))
                else {"sparkConf": {f"spark.hadoop.{name.removeprefix('spark.hadoop.')}": value}},
            )
        ),
        ({"driver": env("JDBC_URL", value="jdbc:mysql://u:x@h/db")}, "env: JDBC_URL"),
        ({"driver": {"javaOptions": ["-Ddb=postgres://u:x@h/db"]}}, "spec.driver.javaOptions: db"),
    ],
)
def test_it_is_a_warning_that_names_the_place(fields: dict[str, Any], place: str) -> None:
    found = find_problems(spec(**fields))
    assert [each.severity for each in found] == ["warning"]
    assert place in found[0].message
    assert "=x" not in found[0].message
    assert ":x@" not in found[0].message


@pytest.mark.parametrize(
    "fields",
    [
        {"driver": env("DB_PASSWORD", valueFrom={"secretKeyRef": {"name": "db", "key": "p"}})},
        {"driver": env("TOKENIZER")},
        {"driver": {"javaOptions": ["-Dpassword.length=3", "-XX:+UseZGC"]}},
        {"dependencies": {"jars": ["https://host:8080/a@b.jar"]}},
        {"sparkConf": {"spark.sql.session.timeZone": "UTC"}},
        {
            "sparkConf": {
                "spark.hadoop.fs.azure.account.auth.type.acc.dfs.core.windows.net": "OAuth"
            }
        },
        {
            "sink": {
                "custom": {"format": "f", "options": {"url": "jdbc:postgresql://h:5432/db?a=b"}}
            }
        },
        {
            "sink": {
                "custom": {"format": "f", "options": {"path": "abfss://c@a.dfs.core.windows.net/"}}
            }
        },
        {"sink": {"custom": {"format": "f", "options": {"x": "a@b: c"}}}},
        {"driver": env("URL", value="http://proxy:3128/a@b")},
    ],
)
def test_a_reference_and_an_innocent_name_are_none(fields: dict[str, Any]) -> None:
    assert find_problems(spec(**fields)) == []
