-- Names that count once: a proof of possession is not accepted a second time (RFC 9449 §11.1).
CREATE TABLE first_uses (
    name     BLOB PRIMARY KEY,  -- a digest
    expires  REAL NOT NULL      -- seconds since the epoch; from then on the name is free
) WITHOUT ROWID;

CREATE INDEX first_uses_by_expiry ON first_uses (expires);
