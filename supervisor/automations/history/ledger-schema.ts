/** Tables of the run ledger: `runtime.sqlite` holds the history, `analytics.sqlite` a summary that outlives it (decisions, section 6). */

/**
 * A run's id is a UUIDv7, so that order by id is order of time. Of the indexes by state none holds what most runs are: those
 * that ended well cost nothing there, and are found among all by the other indexes. The few that have not ended have one of
 * their own. An earlier version's indexes by state held every run that had ended.
 */
export const RUNTIME_SCHEMA = `
  CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    trigger_kind TEXT NOT NULL,
    trigger_origin TEXT,
    parent_run_id TEXT,
    state TEXT NOT NULL,
    input TEXT,
    output TEXT,
    summary TEXT,
    error TEXT,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX IF NOT EXISTS runs_open ON runs (run_id) WHERE ended_at IS NULL;
  CREATE INDEX IF NOT EXISTS runs_by_app ON runs (app_id, run_id);
  CREATE INDEX IF NOT EXISTS runs_by_automation ON runs (app_id, automation_id, run_id, pinned);
  DROP INDEX IF EXISTS runs_by_state;
  DROP INDEX IF EXISTS runs_by_app_state;
  DROP INDEX IF EXISTS runs_by_automation_state;
  CREATE INDEX IF NOT EXISTS runs_not_ok ON runs (state, run_id) WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE INDEX IF NOT EXISTS runs_not_ok_by_app ON runs (app_id, state, run_id) WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE INDEX IF NOT EXISTS runs_not_ok_by_automation ON runs (app_id, automation_id, state, run_id)
    WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE TABLE IF NOT EXISTS run_nodes (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    batch_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    args TEXT,
    output TEXT,
    ok INTEGER NOT NULL,
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, ordinal)
  );
  CREATE TABLE IF NOT EXISTS automation_state (
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (app_id, automation_id, key)
  );
  CREATE TABLE IF NOT EXISTS cron_fired (
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (app_id, automation_id)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS webhook_ids (
    slug TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (slug, webhook_id)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS webhook_ids_by_run ON webhook_ids (run_id);
  CREATE INDEX IF NOT EXISTS webhook_ids_by_time ON webhook_ids (at)`;

export const ANALYTICS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS run_summaries (
    run_id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    trigger_kind TEXT NOT NULL,
    state TEXT NOT NULL,
    model TEXT,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL
  );
  CREATE INDEX IF NOT EXISTS run_summaries_by_end ON run_summaries (ended_at)`;
