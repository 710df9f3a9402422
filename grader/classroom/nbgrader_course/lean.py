"""Driving nbgrader within this process: without its noise, and without what it does over and over."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from jsonschema.validators import validator_for
from nbgrader import api as nbgrader_api
from nbgrader.nbgraderformat import common as nbgrader_format


@contextmanager
def quiet() -> Iterator[None]:
    """Within it, SQLAlchemy's warnings on nbgrader's ways, which say nothing to a teacher, are silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@contextmanager
def lean() -> Iterator[None]:
    """Within it, nbgrader does once what it else does again for every step and every cell.

    It makes a database engine for each step, which forgets every statement that was compiled, and
    proves for each cell anew that its own schema is one. That is half of what a learner costs here.
    """
    engine_of, checker = nbgrader_api.create_engine, nbgrader_format.jsonschema

    def validate(instance: Any, schema: Any) -> None:
        error = next(validator_for(schema)(schema).iter_errors(instance), None)
        if error is not None:
            raise error

    nbgrader_api.create_engine = functools.cache(engine_of)
    nbgrader_format.jsonschema = types.SimpleNamespace(validate=validate)
    try:
        yield
    finally:
        nbgrader_api.create_engine, nbgrader_format.jsonschema = engine_of, checker
