/** The crash points of what authors do: sessions, publications out of them, drafts. */
import type { PointRow } from './points.ts';

export const AUTHORING_POINTS: Record<string, PointRow> = {
  'session.made': { outcome: 'old', after: 'a session is whole, under a temporary name', in: 'opening a session' },
  'session.opened': { outcome: 'new', after: 'the session has its name', in: 'opening a session' },
  'session.branched': { outcome: 'new', after: 'its branch is there', in: 'opening a session' },
  'session.kept': {
    outcome: 'new',
    after: 'a session that was opened for a request outlives it',
    in: 'making a blank app in a session of its own',
  },
  'session.closed': { outcome: 'new', after: 'the session is out of its place', in: 'closing a session' },
  'session.removed': { outcome: 'new', after: 'its files are removed', in: 'closing a session' },
  'draft.removed': { outcome: 'new', after: 'its drafts and their data are removed', in: 'closing a session' },
  'session.unbranched': { outcome: 'new', after: 'its branch is removed', in: 'closing a session' },
  'session.staging-made': { outcome: 'old', after: 'a staging folder is made', in: 'updating a session' },
  'session.filled': { outcome: 'old', after: "the app's files are in it, on the disk", in: 'updating a session' },
  'session.recorded': {
    outcome: 'new',
    after: 'the record says that they are the files of the app',
    in: 'updating a session',
  },
  'session.aside': { outcome: 'new', after: 'the old files are set aside', in: 'updating a session' },
  'session.placed': { outcome: 'new', after: 'the new ones are in their place', in: 'updating a session' },
  'session.aside-removed': { outcome: 'new', after: 'the old ones are removed', in: 'updating a session' },
  'sweep.session': {
    outcome: 'either',
    after: 'what was being made, replaced or removed beside the sessions is settled',
    in: 'making an app like a template in a session',
    repair: true,
  },
  'sweep.session-placed': {
    outcome: 'either',
    after: 'the files of an app are those that its record names',
    in: 'updating a session',
    repair: true,
  },
  'sweep.session-file': {
    outcome: 'either',
    after: 'a temporary file in a session is removed',
    in: 'writing a file in a session',
    repair: true,
  },
  'publish.noted': { outcome: 'old', after: 'the session notes the commit that may go live', in: 'publishing' },
  'publish.live': { outcome: 'new', after: 'it is live', in: 'publishing' },
  'publish.taken': { outcome: 'new', after: "the session's files are those that are live", in: 'publishing' },
  'publish.branched': { outcome: 'new', after: "the session's branch is at them", in: 'publishing' },
  'publish.finished': {
    outcome: 'either',
    after: 'the session knows what became of its commit',
    in: 'publishing',
    repair: true,
  },
  'draft.folder-made': { outcome: 'new', after: "the draft's folder is made", in: 'first call of a draft' },
  'draft.data-released': {
    outcome: 'new',
    after: 'nothing has its data open, which counts no more',
    in: "resetting a draft's data",
  },
  'seed.copied': { outcome: 'new', after: 'the live data is copied, on the disk', in: 'first call of a draft' },
  'seed.cleared': { outcome: 'new', after: "the draft's old data is removed", in: 'first call of a draft' },
  'seed.placed': { outcome: 'new', after: 'the copy has its name', in: 'first call of a draft' },
  'draft.seeded': { outcome: 'new', after: 'the supervisor knows', in: 'first call of a draft' },
  'draft.migrations-noted': {
    outcome: 'new',
    after: 'the migrations to come are noted',
    in: 'another migration in a draft',
  },
  'draft.migrated': { outcome: 'new', after: 'they are in the data', in: 'another migration in a draft' },
};

export const AUTHORING_FILES: Record<string, string> = {
  'session.json': 'opening a session',
  'new.html': 'writing a file in a session',
  'notes.md': 'replacing a file in a session',
  'handler.js': 'making an automation in a session',
  'app.json': 'renaming an app at once',
  'seed.json': 'first call of a draft',
  '0002_extra.sql': 'another migration in a draft',
};
