"""What is said about a topicPattern is what Java says."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from penstock.validation.rules.java_regex import judge

_CHECK = """
import java.nio.file.*;
class Check {
  public static void main(String[] arguments) throws Exception {
    for (String each : Files.readAllLines(Path.of(arguments[0]))) {
      String verdict = "valid";
      try { java.util.regex.Pattern.compile(each); }
      catch (java.util.regex.PatternSyntaxException error) { verdict = "invalid"; }
      System.out.println(verdict);
    }
  }
}
"""
_PIECES = [
    "a", "b-", ".", "*", "+", "?", "|", "(", ")", "(?:", "(?i)", "[", "]", "[^", "a-z", "{", "}",
    "{1,3}", "{3,1}", "{2}", "{,3}", "{env}", "\\.", "\\d", "\\Q", "\\E", "\\p{Alpha}", "&&", "^",
    "$", "\\", "{1,}", "(?<n>", "z-a", ",",
]  # fmt: skip


def test_no_verdict_differs_from_that_of_java(tmp_path: Path) -> None:
    """For random expressions, most of them wrong; those that are not judged do not count."""
    pick = random.Random(7)
    patterns = sorted(
        {"".join(pick.choices(_PIECES, k=pick.randint(1, 6))) for _ in range(4000)} - {""}
    )
    (tmp_path / "Check.java").write_text(_CHECK)
    (tmp_path / "patterns").write_text("\n".join(patterns))
    done = subprocess.run(
        ["java", tmp_path / "Check.java", tmp_path / "patterns"],
        capture_output=True,
        text=True,
        check=True,
    )
    verdicts = dict(zip(patterns, done.stdout.split(), strict=True))
    ours = {pattern: judge(pattern) for pattern in patterns}
    assert {each for each, said in ours.items() if isinstance(said, str)} & {
        each for each, said in verdicts.items() if said == "valid"
    } == set()
    assert {each for each, said in ours.items() if said is True} & {
        each for each, said in verdicts.items() if said == "invalid"
    } == set()
