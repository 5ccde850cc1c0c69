"""The fence table, and the functions by which it is checked: everything that PostgreSQL itself is to know.

Rules of this file
1. The check is under a lock that the transaction keeps to its end. Writers share it, and a seal takes it for itself: a seal
   waits for those who have checked, and those who check later see what it wrote.
2. The lock is an advisory one. FOR SHARE writes the row and the log, once per transaction, and with many writers a multixact
   as well; an advisory lock writes nothing. ADR 0022 has what that costs.
3. The row is read after the lock was taken, and not in a snapshot that is older. Under READ COMMITTED each statement in a
   VOLATILE function has a snapshot of its own, so a plain SELECT does. Under REPEATABLE READ and SERIALIZABLE there is
   one snapshot for all, perhaps from before the seal:
   a. the old leader begins, and reads;   b. its successor seals with token 2, and commits;
   c. the old leader takes the lock, reads the row: still 1, and believes itself.
   There, FOR SHARE fails at c: a row that has changed since cannot be locked (SQLSTATE 40001).
4. A shared lock is never raised to one of one's own: two that do so at once wait for each other.
"""

from hashlib import md5
from typing import Final

SCHEMA: Final = "tenure_fence"
STALE, UNVERIFIED, MISSING, NONSENSE, ENDED = "TN001", "TN002", "TN003", "TN004", "TN005"
LOCK_SEED: Final = 7_465_110  # So that a lock of another program on the same text is another lock.

# Every name is written out here, operators too, where the others set the search path: that costs a third of the whole check.
_LOCK_AND_READ = f"""
  -- Evaluated as an expression, it costs a third of what PERFORM would.
  IF pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended(wanted_fence, {LOCK_SEED})) IS NULL THEN
    RAISE EXCEPTION 'tenure: a fence must have a name' USING ERRCODE = '{NONSENSE}';
  END IF;
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'::pg_catalog.text THEN
    SELECT known.highest INTO found_highest FROM tenure_fence.fences AS known
      WHERE known.fence OPERATOR(pg_catalog.=) wanted_fence;
  ELSE
    SELECT known.highest INTO found_highest FROM tenure_fence.fences AS known
      WHERE known.fence OPERATOR(pg_catalog.=) wanted_fence FOR SHARE;
  END IF;
"""  # noqa: S608  (numbers and names of ours)

_CHECK = f"""
DECLARE
  found_highest pg_catalog.int8;
BEGIN
{_LOCK_AND_READ.strip()}
  IF found_highest OPERATOR(pg_catalog.=) wanted THEN
    RETURN;
  ELSIF found_highest OPERATOR(pg_catalog.>) wanted THEN
    RAISE EXCEPTION 'tenure: token % is stale for fence %: the highest seen is %', wanted, wanted_fence, found_highest
      USING ERRCODE = '{STALE}';
  END IF;
  RAISE EXCEPTION 'tenure: token % was never sealed for fence %: the highest seen is %', wanted, wanted_fence,
    coalesce(found_highest, 0) USING ERRCODE = '{UNVERIFIED}';
END
"""

_GUARD = f"""
CREATE OR REPLACE FUNCTION tenure_fence.guard(wanted_fence text, wanted bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $${_CHECK}$$;
"""

# The same before a commit, as a procedure: what is called is not planned, and has no rows to tell of, which is two thirds of
# what is left to save. The setting is what the transaction has presented, and is gone if it has ended inside.
# Every condition is set up anew in each transaction, so what is plainly right takes two. If the first is true, the lock is held, in
# whichever order its parts are looked at; and the read, which is the next statement, has a snapshot of its own, taken after it.
_FINISH = f"""
CREATE OR REPLACE PROCEDURE tenure_fence.finish(wanted_fence text, wanted bigint, shown_by text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  seen_highest pg_catalog.int8;
BEGIN
  IF pg_catalog.current_setting(shown_by, true) OPERATOR(pg_catalog.=) wanted::pg_catalog.text
      AND pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended(wanted_fence, {LOCK_SEED})) IS NOT NULL
      AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'::pg_catalog.text THEN
    SELECT known.highest INTO seen_highest FROM tenure_fence.fences AS known
      WHERE known.fence OPERATOR(pg_catalog.=) wanted_fence;
    IF seen_highest OPERATOR(pg_catalog.=) wanted THEN
      RETURN;
    END IF;
  END IF;
  IF pg_catalog.current_setting(shown_by, true) OPERATOR(pg_catalog.=) wanted::pg_catalog.text THEN
{_CHECK.strip()};
  ELSE
    RAISE EXCEPTION 'tenure: the transaction has ended inside: what came before was not fenced' USING ERRCODE = '{ENDED}';
  END IF;
END $$;
"""  # noqa: S608  (numbers and names of ours)

_ADMIT = f"""
CREATE OR REPLACE FUNCTION tenure_fence.admit(wanted_fence text, wanted bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_highest bigint;
BEGIN
  IF wanted IS NULL OR wanted < 1 OR wanted_fence IS NULL OR wanted_fence = '' THEN
    RAISE EXCEPTION 'tenure: % is no token of a fence', coalesce(wanted::text, 'NULL') USING ERRCODE = '{NONSENSE}';
  END IF;
  -- A look without a lock, which decides nothing but which lock to take (rule 4).
  SELECT highest INTO found_highest FROM tenure_fence.fences WHERE fence = wanted_fence;
  IF coalesce(found_highest, 0) < wanted THEN
    -- A seal that was answered must outlive a crash, whatever the role has set for its own writes.
    IF current_setting('synchronous_commit') = 'off' THEN
      PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(wanted_fence, {LOCK_SEED}));
    INSERT INTO tenure_fence.fences AS known (fence, highest, raised_by) VALUES (wanted_fence, wanted, session_user)
      ON CONFLICT (fence) DO UPDATE SET highest = excluded.highest, raised_at = clock_timestamp(), raised_by = session_user
      WHERE known.highest < excluded.highest;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM tenure_fence.guard(wanted_fence, wanted);
END $$;
"""  # noqa: S608  (numbers and names of ours)

# What is presented is compared as it is. Whatever is not the very digits of the fence is looked at by the next function. The first is that of
# triggers that were made by hand or by an older version: what is installed now has a function for its fence alone (``triggers``).
_CHECK_TOKEN = f"""
CREATE OR REPLACE FUNCTION tenure_fence.check_token() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
  wanted_fence pg_catalog.text := TG_ARGV[0];
  shown pg_catalog.text := pg_catalog.current_setting('tenure.f_' OPERATOR(pg_catalog.||) pg_catalog.md5(pg_catalog.convert_to(TG_ARGV[0], 'UTF8')), true);
  found_highest pg_catalog.int8;
BEGIN
{_LOCK_AND_READ.strip()}
  IF found_highest::pg_catalog.text OPERATOR(pg_catalog.=) shown THEN
    RETURN NULL;
  END IF;
  PERFORM tenure_fence.judge_shown(wanted_fence, shown);
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION tenure_fence.judge_shown(wanted_fence text, shown text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(shown, '') = '' THEN
    RAISE EXCEPTION 'tenure: this transaction has presented no token for fence %', wanted_fence USING ERRCODE = '{MISSING}',
      HINT = format('SELECT tenure_fence.present(%L, <token>) in the same transaction.', wanted_fence);
  ELSIF shown !~ '^[0-9]{{1,18}}$' AND (shown !~ '^[0-9]{{19}}$' OR shown COLLATE "C" > '9223372036854775807') THEN
    RAISE EXCEPTION 'tenure: % is no token', left(shown, 40) USING ERRCODE = '{NONSENSE}';
  END IF;
  PERFORM tenure_fence.guard(wanted_fence, shown::bigint);
END $$;
"""

_REST = """
CREATE OR REPLACE FUNCTION tenure_fence.present(shown_fence text, shown bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$ SELECT pg_catalog.set_config('tenure.f_' || pg_catalog.md5(pg_catalog.convert_to(shown_fence, 'UTF8')), shown::text, true) $$;
CREATE OR REPLACE FUNCTION tenure_fence.highest(of_fence text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT highest FROM tenure_fence.fences WHERE fence = of_fence), 0) $$;
-- Each by its name: functions of single fences may be those of another role.
REVOKE ALL ON FUNCTION tenure_fence.guard, tenure_fence.admit, tenure_fence.check_token, tenure_fence.judge_shown,
  tenure_fence.present, tenure_fence.highest FROM PUBLIC;
REVOKE ALL ON PROCEDURE tenure_fence.finish FROM PUBLIC;
"""

_TABLE = """
CREATE SCHEMA IF NOT EXISTS tenure_fence;
CREATE TABLE IF NOT EXISTS tenure_fence.fences (
  fence text PRIMARY KEY CHECK (fence <> ''),
  highest bigint NOT NULL CHECK (highest >= 1),
  raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  raised_by text NOT NULL DEFAULT session_user
);
"""

# With the rights of whoever calls it, and a leader's are not enough. It returns where the fence stood; if that is not what was said,
# it has changed nothing.
_REPAIR = f"""
CREATE TABLE IF NOT EXISTS tenure_fence.repairs (
  repair bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fence text NOT NULL,
  was bigint NOT NULL,
  now bigint NOT NULL,
  who text NOT NULL,
  "when" text NOT NULL,
  why text NOT NULL,
  lowered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  lowered_by text NOT NULL DEFAULT session_user
);
CREATE OR REPLACE FUNCTION tenure_fence.lower_fence(
  of_fence text, said_was bigint, said_now bigint, said_who text, said_when text, said_why text, wait_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stood bigint;
BEGIN
  -- Before the lock is taken, for which others would have to wait.
  IF NOT has_table_privilege('tenure_fence.fences', 'UPDATE') OR NOT has_table_privilege('tenure_fence.repairs', 'INSERT') THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not lower a fence', current_user);
  END IF;
  PERFORM set_config('lock_timeout', wait_ms::text, true);
  PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
  PERFORM pg_advisory_xact_lock(hashtextextended(of_fence, {LOCK_SEED}));
  SELECT highest INTO stood FROM tenure_fence.fences WHERE fence = of_fence FOR UPDATE;
  IF stood IS DISTINCT FROM said_was THEN
    RETURN coalesce(stood, 0);
  ELSIF said_now IS NULL OR said_now < 0 OR said_now >= stood THEN
    RAISE EXCEPTION 'tenure: a fence cannot be lowered from % to %', stood, said_now USING ERRCODE = '{NONSENSE}';
  ELSIF said_now = 0 THEN
    DELETE FROM tenure_fence.fences WHERE fence = of_fence;
  ELSE
    UPDATE tenure_fence.fences SET highest = said_now, raised_at = clock_timestamp(), raised_by = session_user WHERE fence = of_fence;
  END IF;
  INSERT INTO tenure_fence.repairs (fence, was, now, who, "when", why)
    VALUES (of_fence, stood, said_now, said_who, said_when, said_why);
  RETURN stood;
END $$;
REVOKE ALL ON FUNCTION tenure_fence.lower_fence FROM PUBLIC;
"""  # noqa: S608  (numbers and names of ours)

# CREATE IF NOT EXISTS and CREATE OR REPLACE are not safe against each other; a lock is.
SET_UP: Final = (
    f"SELECT pg_advisory_xact_lock({LOCK_SEED});\n"
    + (_TABLE + _GUARD + _FINISH + _ADMIT + _CHECK_TOKEN + _REST + _REPAIR).strip()
    # A table of which nothing is known is taken for ten pages, and read by its index, which costs more than to read its few rows.
    + "\nANALYZE tenure_fence.fences;\n"
)


def set_up_sql() -> str:
    """Return the SQL that makes the schema ``tenure_fence``, for those who let no program do so. Harmless if it is there."""
    return f"BEGIN;\n{SET_UP}COMMIT;\n"


def grants_sql(role: str) -> str:
    """Return the SQL that gives a role the least that a leader needs: to check its token, and to raise the fence."""
    who = quoted(role)
    return f"GRANT USAGE ON SCHEMA tenure_fence TO {who};\nGRANT EXECUTE ON ALL ROUTINES IN SCHEMA tenure_fence TO {who};\n"


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def setting_of(fence: str) -> str:
    """Return the name of the setting that shows a token for this fence to triggers."""
    return f"tenure.f_{md5(fence.encode(), usedforsecurity=False).hexdigest()}"


def literal(text: str) -> str:
    """Return a text as SQL has it, however the server reads backslashes."""
    quoted_text = text.replace("'", "''")
    return " E'" + quoted_text.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted_text}'"
