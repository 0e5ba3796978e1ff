-- How many webhooks a task has: one row each, under what it is counted by. They go with the task's row.
CREATE TABLE webhooks (
    owner  INTEGER NOT NULL REFERENCES owners (id),
    agent  BLOB NOT NULL,
    task   BLOB NOT NULL,
    name   BLOB NOT NULL,
    PRIMARY KEY (owner, agent, task, name)
) WITHOUT ROWID;
