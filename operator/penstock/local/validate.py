"""`penstock validate`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from io import TextIOWrapper
from typing import Annotated

from penstock import how_to_install
from penstock.command_line import WRONG_USAGE, CommandError, Format, Paths, option
from penstock.contract.operator_settings import PodSecurity
from penstock.validation.file_check import check, check_paths
from penstock.validation.report import rendered


def validate(
    paths: Paths,
    /,
    *,
    format: Format = "text",
    spark: Annotated[
        bool,
        option("let Spark analyze the queries too; requires Java 17 and penstock-streams[driver]"),
    ] = False,
    pod_security: Annotated[
        PodSecurity, option("the operator's chart value podSecurity")
    ] = PodSecurity.RESTRICTED,
) -> int:
    """Check the ContinuousStreams in manifests without a cluster. Other resources are skipped.

    Errors are what the API server or the operator would refuse. Warnings and notices do not affect
    the exit code; a notice NotJudged says what only Spark or the cluster can judge. Of SQL, names
    of columns, functions and fields, and types, are judged with --spark only.

    PATH is a file, a folder (all *.yaml, *.yml and *.json below it), a pattern in quotes, or - for
    the standard input.

    examples:
      # Check all manifests of a folder, and those that Helm renders
      penstock validate deploy/
      helm template charts/streams | penstock validate -

      # Let Spark analyze the queries too
      penstock validate --spark stream.yaml

      # Show the findings as annotations of a GitHub workflow
      penstock validate --format github stream.yaml

    exit codes:
      0  there are streams, and all are valid
      1  there is an error, or no stream
      2  wrong usage, or a file cannot be read
    """
    try:
        if spark:
            from penstock.local.spark_analyzer import spark_analyzer  # imports pyspark
        with spark_analyzer() if spark else nullcontext() as analyzer:
            report, all_read = check_paths(
                paths, partial(check, analyzer=analyzer, allowed=pod_security)
            )
    except ImportError as error:
        needed = f"--spark requires {error.name}: {how_to_install('driver')}"
        raise CommandError(needed, WRONG_USAGE) from error
    except CommandError as error:
        raise CommandError(f"--spark: {error}", error.code) from error
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be Unicode
    sys.stdout.write(f"{rendered(report, format)}\n")
    if not all_read:
        return WRONG_USAGE
    return 0 if report.passed else 1
