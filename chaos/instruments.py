"""What the harness puts into the database of the platform before it starts: triggers that tell, and that fail.

The product's own tables stay as they are. One trigger notes each time that a row becomes QUEUED, in the transaction
that does it; another raises the errors by which PostgreSQL asks for another try, while a fault says so.
"""

import psycopg

INSTALL = """
CREATE TABLE chaos_mark (execution uuid NOT NULL, attempt integer NOT NULL);
CREATE FUNCTION chaos_note_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos_mark VALUES (NEW.id, NEW.attempt);
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_note_mark AFTER UPDATE OF state ON onbeat_execution FOR EACH ROW
  WHEN (NEW.state = 'QUEUED' AND OLD.state <> 'QUEUED') EXECUTE FUNCTION chaos_note_mark();

CREATE UNLOGGED TABLE chaos_trouble (code text NOT NULL, share float NOT NULL);
CREATE FUNCTION chaos_fail() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE trouble chaos_trouble;
BEGIN
  SELECT * INTO trouble FROM chaos_trouble LIMIT 1;
  IF FOUND AND random() < trouble.share THEN
    RAISE EXCEPTION 'raised by the harness' USING ERRCODE = trouble.code;
  END IF;
  RETURN NULL;
END $$;
"""
# Statements on each of these fail, once in a while, while trouble lasts.
_TABLES = ("onbeat_execution", "onbeat_attempt", "onbeat_schedule", "onbeat_job_version", "onbeat_run_key")
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"


def install(database: psycopg.Connection) -> None:
    database.execute(INSTALL)
    for table in _TABLES:
        database.execute(
            f"CREATE TRIGGER chaos_fail BEFORE INSERT OR UPDATE OR DELETE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION chaos_fail()"
        )


def begin_trouble(database: psycopg.Connection, code: str, *, share: float) -> None:
    database.execute("INSERT INTO chaos_trouble VALUES (%s, %s)", [code, share])


def end_trouble(database: psycopg.Connection) -> None:
    database.execute("DELETE FROM chaos_trouble")
