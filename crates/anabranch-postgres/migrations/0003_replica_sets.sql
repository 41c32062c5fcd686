-- Replica sets: who should own which slots. Who does own them is in the cursors.
CREATE TABLE "{ns}".replica_sets (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    generation bigint NOT NULL DEFAULT 0,    -- the number of the current assignment
    rollout    text   NOT NULL,              -- cooperative or recreate
    rates      bytea,                        -- events per second of each slot, as measured
    rates_us   bigint NOT NULL DEFAULT 0     -- when the slots were last moved for their load
);

-- The history of assignments, the current one included: when, why, who had what.
CREATE TABLE "{ns}".generations (
    replica_set text COLLATE "C" NOT NULL,
    generation  bigint NOT NULL,
    at_us       bigint NOT NULL,
    reason      text   NOT NULL,
    PRIMARY KEY (replica_set, generation)
);
CREATE TABLE "{ns}".assignments (
    replica_set text COLLATE "C" NOT NULL,
    generation  bigint NOT NULL,
    worker      text COLLATE "C" NOT NULL,
    place       text   NOT NULL,             -- host and process, for when the worker is gone
    slots       bytea  NOT NULL,
    PRIMARY KEY (replica_set, generation, worker)
);

ALTER TABLE "{ns}".workers
    ADD COLUMN fixed   bytea,                     -- the slots that it asks for; NULL: a fair share
    ADD COLUMN settled bigint NOT NULL DEFAULT 0, -- it holds nothing of generations before this one
    ADD COLUMN report  text   NOT NULL DEFAULT '{}'; -- what its lanes do, for status

-- A consumer whose positions were imported before it first ran still has to be set up.
ALTER TABLE "{ns}".consumers ADD COLUMN is_set_up boolean NOT NULL DEFAULT true;
INSERT INTO "{ns}".migrations (version, name) VALUES (3, 'replica sets');
