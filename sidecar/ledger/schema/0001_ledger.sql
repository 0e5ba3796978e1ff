-- Applied in one transaction by opening.py, which then sets user_version to 1.
--
-- What callers or agents wrote is a BLOB of UTF-8 (lone surrogates included): compared byte for
-- byte, NUL and all. Times are seconds since the epoch.

CREATE TABLE owners (
    id       INTEGER PRIMARY KEY,
    tenant   BLOB NOT NULL,
    issuer   BLOB NOT NULL,
    subject  BLOB NOT NULL,
    further  BLOB NOT NULL,  -- a list: each part with its length before it (rows.packed)
    UNIQUE (tenant, issuer, subject, further)
);

-- The primary key is the first-writer rule: a resource has one row, whoever asks.
CREATE TABLE resources (
    agent         BLOB NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('task', 'context')),
    id            BLOB NOT NULL,
    owner         INTEGER NOT NULL REFERENCES owners (id),
    tenant        BLOB NOT NULL,    -- the A2A tenant
    context_id    BLOB,
    state         BLOB,
    status_at     BLOB,             -- as the agent wrote it
    skill         BLOB,
    held          BLOB NOT NULL,    -- a list, like owners.further
    chosen        INTEGER NOT NULL, -- the caller picked the id
    reservations  INTEGER NOT NULL, -- calls that hold a provisional row; 0: final
    first_seen    REAL NOT NULL,
    last_seen     REAL NOT NULL,
    gone_at       REAL,             -- when the agent no longer knew it
    terminal      INTEGER NOT NULL, -- derived from state, for pruning
    status_order  INTEGER,          -- derived from status_at, in microseconds, for sorting
    PRIMARY KEY (agent, kind, id)
) WITHOUT ROWID;

-- Every question of a caller goes through this index: its entries start with the owner, so what is
-- somebody else's is not there, like what never was.
CREATE UNIQUE INDEX owned ON resources (owner, agent, kind, id);

-- A caller's own tasks, newest first.
CREATE INDEX newest ON resources (owner, agent, kind, status_order DESC, id);

CREATE INDEX by_age ON resources (terminal, last_seen);

-- Ids that were somebody's and that a caller could name: only that owner may record them again.
CREATE TABLE tombstones (
    resource  BLOB PRIMARY KEY,  -- SHA-256, rows.resource_hash
    owner     BLOB NOT NULL      -- SHA-256, rows.owner_hash
) WITHOUT ROWID;

-- Written and emptied in one transaction, to prove that a row could be stored.
CREATE TABLE probe (filler BLOB NOT NULL);
