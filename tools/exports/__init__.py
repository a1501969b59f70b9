"""Writes the fixtures of tests/exports/: exports of other tools, written by their own SDKs.

Each fixture is written in an environment that has the product's SDK at the version of `PINNED`, and nothing of ragweir:

    python3 -m venv ragas && ragas/bin/pip install ragas==0.4.3 pyarrow
    ragas/bin/python -m tools.exports ragas

The contents are invented from public facts. Nothing is sent anywhere: no module opens a connection.
"""
