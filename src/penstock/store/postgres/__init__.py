"""The store on PostgreSQL, in the SQL that CockroachDB and YugabyteDB share with it. It needs psycopg."""

from penstock.errors import StoreRefused

try:
    import psycopg  # noqa: F401
except ImportError as error:
    raise StoreRefused(
        "the PostgreSQL store needs psycopg, which is not installed: run pip install 'penstock-mq[postgres]'"
    ) from error
