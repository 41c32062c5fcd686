-- What operators do: planned, applied, written down; and who may.

-- Plans: what an operation would do, counted, until somebody applies it or it expires.
CREATE TABLE "{ns}".plans (
    id              text COLLATE "C" PRIMARY KEY,
    request         text   NOT NULL,         -- what to do, as JSON
    basis           text   NOT NULL,         -- what it was made on, as JSON: compared before it is applied
    effect          text   NOT NULL,         -- what it would do, counted, as JSON
    who             text   NOT NULL,
    via             text   NOT NULL,         -- cli, api, console, library
    state           text   NOT NULL,         -- open, running, done, failed, cancelled
    made_us         bigint NOT NULL,
    expires_us      bigint NOT NULL,
    began_us        bigint,
    ended_us        bigint,
    total           bigint NOT NULL,         -- how many things it is about
    target          text COLLATE "C" NOT NULL,
    done            bigint NOT NULL DEFAULT 0,
    gone            bigint NOT NULL DEFAULT 0,  -- what was not there any more, or not as it was
    applied_by      text,                    -- who applies it, which need not be who has made it
    applied_via     text,                    -- cli, api, console, library: what a server goes on with if it was left
    after           text,                    -- how far it is in what its filter finds
    runner          text,                    -- the call that applies it
    runner_until_us bigint,                  -- step by step: until when no other one does
    problem         text
);
CREATE INDEX plans_made ON "{ns}".plans (made_us);

-- Who did what, when, and what came of it. Rows are only added, each in the transaction of what it tells of.
CREATE TABLE "{ns}".journal (
    seq       bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_us     bigint NOT NULL,
    plan      text COLLATE "C" NOT NULL,
    stage     text   NOT NULL,               -- applied; or began, then done, cancelled or failed
    verb      text COLLATE "C" NOT NULL,     -- pause, replay, retry_parked, …
    target    text COLLATE "C" NOT NULL,     -- a consumer, a pool, a replica set
    who       text   NOT NULL,
    via       text   NOT NULL,
    request   text   NOT NULL,
    effect    text   NOT NULL,               -- what the plan said
    outcome   text                           -- what was done, as JSON
);
CREATE INDEX journal_target ON "{ns}".journal (target, seq);
CREATE INDEX journal_plan ON "{ns}".journal (plan, seq);
CREATE FUNCTION "{ns}".keep_journal() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $keep$
BEGIN
    RAISE EXCEPTION 'the journal of operations is only added to';
END
$keep$;
CREATE TRIGGER journal_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON "{ns}".journal
    FOR EACH STATEMENT EXECUTE FUNCTION "{ns}".keep_journal();

-- Who may use the API. Of a token only its hash is kept.
CREATE TABLE "{ns}".tokens (
    id         text COLLATE "C" PRIMARY KEY,
    name       text   NOT NULL,
    hash       bytea  NOT NULL UNIQUE,       -- SHA-256 of the token, which is random
    scopes     text   NOT NULL,              -- read, read-masked, operate, append; with spaces
    consumers  text,                         -- a JSON list; NULL: all
    tenants    text,                         -- a JSON list; NULL: all
    made_us    bigint NOT NULL,
    made_by    text   NOT NULL,
    expires_us bigint,
    used_us    bigint,                       -- when it was used last, to the minute
    revoked_us bigint
);
-- Browsers that have logged in with a token.
CREATE TABLE "{ns}".sessions (
    hash       bytea PRIMARY KEY,            -- SHA-256 of what the cookie holds
    token      text COLLATE "C" NOT NULL,
    made_us    bigint NOT NULL,
    expires_us bigint NOT NULL
);

-- Whether the code of a consumer can handle one key again, as it said when it started last; NULL: not known.
ALTER TABLE "{ns}".consumers ADD COLUMN replays_keys boolean;
-- The events of keys that are to be handled again, until all of a key are there: then they go behind the key at once.
CREATE TABLE "{ns}".replayed_events (
    consumer text   COLLATE "C" NOT NULL,
    key      text   COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    row_key  text   COLLATE "C",             -- the row of a view that it belongs to
    PRIMARY KEY (consumer, key, position)
);

-- Up to which event a skip goes that is asked for: what came behind the key later is tried. NULL: all, as older programs ask.
ALTER TABLE "{ns}".parked_keys ADD COLUMN asked_to bigint;

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (14, 'operations', 5);
