"""What the pipeline cannot run with is said in one sentence, before Java starts."""

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.job import pipeline


@pytest.mark.parametrize("installed", ["4.0.5", "4.1.4"])
def test_a_spark_that_is_too_old(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    monkeypatch.setattr(pipeline, "version", lambda name: installed)
    with pytest.raises(OperatorError, match=rf"needs PySpark 4\.2 or 4\.3, and {installed}"):
        pipeline.spark_java()


def test_the_one_that_is_installed_is_good() -> None:
    assert pipeline.spark_java().version >= 17
