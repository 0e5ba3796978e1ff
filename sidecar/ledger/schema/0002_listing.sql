-- Listing: a caller's own tasks in the order ListTasks wants, without touching anybody else's rows.

DROP INDEX newest;

-- Where the agent gave no timestamp, when the task was first seen stands for it.
UPDATE resources SET status_order = CAST(first_seen * 1000000 AS INTEGER) WHERE status_order IS NULL;

-- Only what a list can show: made, and still known to the agent.
CREATE INDEX newest ON resources (owner, agent, tenant, status_order DESC, id)
    WHERE kind = 'task' AND reservations = 0 AND gone_at IS NULL;

CREATE INDEX unfinished ON resources (owner, agent, tenant, status_order DESC, id)
    WHERE kind = 'task' AND reservations = 0 AND gone_at IS NULL AND terminal = 0;

-- What page tokens are sealed with: the newest seals, older ones only open what they sealed.
CREATE TABLE keys (
    id       INTEGER PRIMARY KEY,
    secret   BLOB NOT NULL,    -- 32 bytes
    made_at  REAL NOT NULL
);
